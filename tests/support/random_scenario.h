// Random small clusters and models, for properties that must hold of all of them.
#pragma once

#include <cmath>
#include <random>

#include "tests/support/small_scenario.h"

namespace sluice {

// One node; sp and pp of 1 or 2, up to 6 subsequences, 2 to 4 layers, with and without GQA, SwiGLU, RoPE, tied ends;
// rates of GPU, copies and links over a decade each.
inline Scenario random_scenario(std::mt19937& random) {
    const auto one_of = [&](auto a, auto b) { return random() % 2 == 0 ? a : b; };
    const auto decade = [&](double low) { return low * std::pow(10.0, static_cast<double>(random() % 1000) / 1000.0); };
    Scenario s = small_scenario(one_of(1, 2), one_of(1, 2), 1 + static_cast<std::int64_t>(random() % 6));
    s.model.layers = 2 + static_cast<std::int64_t>(random() % 3);
    s.model.kv_heads = one_of(8, 2);
    s.model.activation = one_of(ActivationFunction::kGelu, ActivationFunction::kSwiglu);
    s.model.norm = one_of(Norm::kLayerNorm, Norm::kRmsNorm);
    s.model.positions = one_of(Positions::kLearned, Positions::kRope);
    s.model.tied_embeddings = one_of(true, false);
    s.sequence = Tokens{one_of(2048, 8192)};
    s.policy.granularity = one_of(Granularity::kStage, Granularity::kLayer);
    if (s.policy.pp == 1 && random() % 3 == 0)
        s.policy.granularity = Granularity::kLayer, s.policy.order = TraversalOrder::kLayerMajor;
    s.policy.partition.kind = one_of(PartitionKind::kFlops, PartitionKind::kEqual);
    const double link = decade(1e9), rate = decade(0.3e12);
    s.cluster.pcie.d2h = s.cluster.pcie.switch_d2h = BytesPerSecond{link};
    s.cluster.pcie.h2d = s.cluster.pcie.switch_h2d = BytesPerSecond{link * 1.1};
    s.cluster.pcie.duplex = BytesPerSecond{link * 1.9};
    s.cluster.nvlink.bandwidth = BytesPerSecond{decade(20e9)};
    for (GemmPoint& point : s.calibration.gemm) point.rate = FlopsPerSecond{rate};
    for (AttentionPoint& point : s.calibration.attention)
        point.forward = FlopsPerSecond{rate * 0.7}, point.backward = FlopsPerSecond{rate * 0.5};
    return s;
}

}  // namespace sluice
