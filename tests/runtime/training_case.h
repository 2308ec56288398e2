// Small training runs for tests: a scenario of round numbers, planned, lowered and run on the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "planner/lower.h"
#include "runtime/decoder/session.h"
#include "tests/runtime/reference_model.h"
#include "tests/support/small_scenario.h"

namespace sluice {

enum class Style : std::uint8_t { kLlama, kGpt2, kNeox };

inline Architecture tiny_architecture(Style style) {
    Architecture a;
    a.name = "tiny", a.layers = 4, a.hidden = 16, a.heads = 4, a.kv_heads = 4, a.head_dim = 4, a.ffn = 24;
    a.vocabulary = 37;
    const bool llama = style == Style::kLlama;
    a.activation = llama ? ActivationFunction::kSwiglu : ActivationFunction::kGelu;
    a.norm = llama ? Norm::kRmsNorm : Norm::kLayerNorm;
    a.positions = style == Style::kGpt2 ? Positions::kLearned : Positions::kRope;
    a.bias = !llama;
    a.tied_embeddings = style == Style::kGpt2;
    return a;
}

inline Scenario training_scenario(const Architecture& model, std::int64_t tokens, std::int64_t n = 1,
                                  std::int64_t sp = 1, std::int64_t pp = 1, std::int64_t dp = 1) {
    Scenario s = small_scenario(sp, pp, n);
    s.model = model;
    s.cluster.gpus_per_node = sp * pp * dp;
    s.sequence = Tokens{tokens};
    s.batch = dp;
    s.policy.dp = dp;
    s.policy.granularity = Granularity::kLayer;
    s.policy.partition.kind = PartitionKind::kEqual;
    s.policy.placement = KeepAll{};
    s.precision = {DataType::kFp32, DataType::kFp32, DataType::kFp32};
    s.calibration.attention_forward_workspace = s.calibration.attention_backward_workspace = 0;
    return s;
}

inline Schedule lowered_schedule(const Scenario& scenario) {
    Lowered lowered = lower(scenario);
    if (!lowered.feasible()) throw std::runtime_error("the test's scenario does not fit: " + lowered.reasons.front());
    return std::move(lowered.schedule);
}

// The same for every cut of a scenario: made from the step and the length.
inline StepTokens random_tokens(const Scenario& s, std::uint32_t seed) {
    std::mt19937 random(seed);
    StepTokens tokens;
    for (std::int64_t q = 0; q < s.batch; ++q) {
        std::vector<TokenId> all;
        for (std::int64_t t = 0; t <= s.sequence.value; ++t)
            all.push_back(static_cast<TokenId>(random() % static_cast<std::uint32_t>(s.model.vocabulary)));
        tokens.inputs.emplace_back(all.begin(), all.end() - 1);
        tokens.targets.emplace_back(all.begin() + 1, all.end());
    }
    return tokens;
}

inline ReferenceParameters reference_parameters(const Session& session) {
    ReferenceParameters all;
    for (const WholeParameter& p : session.parameters()) {
        ReferenceMatrix m;
        m.rows = p.shape.size() == 1 ? 1 : p.shape[0], m.columns = p.shape.back();
        m.values.assign(p.weights.begin(), p.weights.end());
        all[p.name] = std::move(m);
    }
    return all;
}

// |a - b| / |b|, over all elements.
inline double relative_error(const std::vector<float>& a, const std::vector<double>& b) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return std::sqrt(difference / (size > 0 ? size : 1));
}

}  // namespace sluice
