// The plan: what was decided before anything is lowered, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "models/layer_kernels.h"
#include "scenarios/scenario.h"

namespace sluice {

// One pipeline stage; all ranks of its sequence-parallel group do the same. Bytes are per rank, by slot: a subsequence,
// or in layer-major order a layer and a subsequence, all subsequences of the lowest layer first.
struct StagePlan {
    std::int64_t first_layer = 0, layers = 0;
    std::vector<Bytes> activation;         // A_i: what the backward pass needs besides K and V
    std::vector<Bytes> offloaded;          // x_i = alpha_i A_i; layer by layer, whole tensors
    std::vector<std::int64_t> recomputed;  // r_i: layers made again in backward, the lowest ones; empty: none
    std::vector<Bytes> window;       // what the copies of i can move while the neighbours i+1 compute, out and back
    std::int64_t kv_offloaded = 0;   // layers, the lowest ones, whose K and V are on the host between their uses
    Seconds added{}, least_added{};  // three-way: what r and x add by its own account; what no choice undercuts
    bool recomputes() const;         // any r_i > 0
    double alpha(std::size_t i) const { return activation[i].value == 0 ? 0 : offloaded[i] / activation[i]; }
};

struct Plan {
    std::vector<Subsequence> subsequences;
    std::vector<StagePlan> stages;
    std::vector<std::string> notes;  // what a reader should know: copies beyond their window, padding ...
};

Bytes offloaded_bytes(const Plan&);           // of all stages, one rank each
std::int64_t recomputed_layers(const Plan&);  // layer activations: a layer and a subsequence each

}  // namespace sluice
