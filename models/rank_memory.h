// What a rank's memory holds besides activations: parameters and their states, workspaces, logits.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "models/layer_kernels.h"
#include "scenarios/scenario.h"

namespace sluice {

// Parameters on one rank of a sequence-parallel group.
struct Parameters {
    std::int64_t sharded = 0;     // Megatron: GEMM weights and column-parallel biases: 1/t of the whole
    std::int64_t replicated = 0;  // norms and row-parallel biases, with Ulysses everything: whole on every rank; their
                                  // gradients are all-reduced
    std::int64_t total() const { return sharded + replicated; }
};

std::int64_t table_parameters(const Scenario&);  // of the token embedding, or of the output projection, alone
Parameters layer_parameters(const Scenario&);    // one layer
Parameters embedding_parameters(
    const Scenario&);                         // token embedding, and position embedding where positions are learned
Parameters head_parameters(const Scenario&);  // final norm and output projection (a copy when tied and PP > 1)

std::int64_t model_parameters(const Scenario&);  // whole model, each parameter once

// Of `parameters` that every replica has, those whose state one rank holds: 1/dp of them, rounded up, where ZeRO shares
// that state out (from `stage` on); else all.
std::int64_t held_parameters(const Scenario&, ZeroStage stage, std::int64_t parameters);

// What ZeRO cuts in dp as a whole: parameters that lie side by side and that the same ranks hold. A table is one by
// itself, since two stages may hold it.
struct ParameterRun {
    std::int64_t parameters = 0;
    bool replicated = false;
};
using ParameterRuns = std::vector<ParameterRun>;  // as they lie
ParameterRuns layer_runs(const Scenario&);
ParameterRuns embedding_runs(const Scenario&);
ParameterRuns head_runs(const Scenario&);

Parameters all_parameters(const ParameterRuns&);
// Those that one rank holds, as above; every run is rounded up by itself.
Parameters held_parameters(const Scenario&, ZeroStage stage, const ParameterRuns&);

// Weights in their type; fp32 master weights, unless the weights are fp32 themselves, and two AdamW moments; gradients
// in the accumulators' type.
Bytes weight_bytes(const Scenario&, std::int64_t parameters);
Bytes optimizer_bytes(const Scenario&, std::int64_t parameters);
Bytes gradient_bytes(const Scenario&, std::int64_t parameters);

// Bounds of what kernels need beside their inputs and outputs, for one subsequence (docs/memory.md has the terms).
Bytes forward_workspace(const Scenario&, Subsequence);
Bytes backward_workspace(const Scenario&, Subsequence);
Bytes loss_workspace(const Scenario&, Subsequence);  // one chunk of logits, fp32

// dK/dV of one attention call are produced for at most this many keys at a time, then added into the accumulators.
inline constexpr Tokens kKvGradientChunk{131072};

}  // namespace sluice
