// Small models that the GPU and the CPU both train.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda/bf16.h"
#include "runtime/decoder/session.h"
#include "tests/runtime/training_case.h"

namespace sluice::cuda {

inline Architecture small_architecture(Style style) {
    Architecture a = tiny_architecture(style);
    a.layers = 3, a.hidden = 128, a.heads = 4, a.kv_heads = style == Style::kLlama ? 2 : 4, a.head_dim = 64;
    a.ffn = 256, a.vocabulary = 320;
    return a;
}

inline Scenario scenario_of(Style style, std::int64_t tokens, std::int64_t n, DataType weights = DataType::kBf16) {
    Scenario s = training_scenario(small_architecture(style), tokens, n);
    s.precision = {weights, DataType::kFp32, DataType::kFp32};
    s.policy.partition.alignment = Tokens{128};
    s.cluster.gpu.memory = 64_GiB;
    s.calibration.gemm_workspace = 256_MiB;  // what cuDNN's deterministic backward needs, and more
    return s;
}

// Weights that both kinds of run hold exactly.
inline std::vector<WholeParameter> rounded(std::vector<WholeParameter> parameters) {
    for (WholeParameter& p : parameters)
        for (float& w : p.weights) w = to_float(to_bf16(w));
    return parameters;
}

inline std::vector<double> widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

struct StepResult {
    StepReport report;
    std::vector<WholeParameter> gradients;
};

inline StepResult step_of(Session& session, std::span<const WholeParameter> parameters, const StepTokens& tokens) {
    session.set_parameters(parameters);
    StepSettings settings;
    settings.learning_rate = 0, settings.clip = 0;
    StepResult result;
    result.report = session.step(tokens, settings);
    result.gradients = session.gradients();
    return result;
}

}  // namespace sluice::cuda
