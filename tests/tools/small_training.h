// A training run of milliseconds: a model of two layers on the bytes of README.md, everything offloaded that can be.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace sluice {

struct SmallTraining {
    std::int64_t sp = 1, pp = 1, n = 4, layers = 2, tokens = 96;
    std::string placement = "full", granularity = "layer", gpu_memory = "64 MiB", kind = "megatron";
    std::int64_t dp = 1, zero = 0, batch = 1;
};

inline std::string scenario_text(const SmallTraining& t) {
    return fmt::format(R"(name: small-training
model: {{layers: {}, hidden: 32, heads: 4, kv_heads: 4, head_dim: 8, ffn: 64, vocabulary: 256, activation: swiglu,
  norm: rmsnorm, positions: rope, bias: false, tied_embeddings: false}}
cluster: {{use: tiny-cpu, gpus_per_node: {}, gpu_memory: "{}"}}
calibration: tiny-cpu
sequence: {} tokens
batch: {} sequences
precision: {{weights: fp32, gradients: fp32, kv_gradients: fp32}}
policy: {{sp: {{kind: {}, degree: {}}}, pp: {}, dp: {}, zero: {}, n: {}, placement: {}, granularity: {}}}
)",
                       t.layers, t.sp * t.pp * t.dp, t.gpu_memory, t.tokens, t.batch, t.kind, t.sp, t.pp, t.dp, t.zero,
                       t.n, t.placement, t.granularity);
}

inline std::string readme() { return std::string(SLUICE_SOURCE_DIR) + "/README.md"; }

}  // namespace sluice
