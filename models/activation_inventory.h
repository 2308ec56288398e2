// What one layer leaves behind for its backward pass: the inventory, as a table that reports print (docs/memory.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "models/layer_kernels.h"
#include "scenarios/scenario.h"

namespace sluice {

// Lifetime classes of SPPO section 3.2, Fig. 6.
enum class Lifetime : std::uint8_t {
    kEverySubsequence,  // type 0: K and V, read by every later subsequence; stays on the GPU
    kForwardBackward,   // type 1: once in forward, once in backward; kept, offloaded or recomputed
    kOneDirection,      // type 2: within one op or one direction; a workspace
};

struct ActivationTensor {
    std::string_view name;
    std::optional<Tensor> tensor;  // what a runtime calls it; absent for K and V and for the paper's figures
    double bytes_per_token = 0;  // of the whole layer, before division by the sequence-parallel degree
    Lifetime lifetime = Lifetime::kForwardBackward;
    Flops recompute_per_token{};  // GEMM and attention FLOPs to make it again from what precedes it, whole layer
    Bytes recompute_traffic_per_token{};  // memory traffic likewise
    std::string_view recomputed_from;     // "" where nothing cheaper than the whole layer gives it
    // Does the recompute fate drop it after forward and make it again? True for what one or two GEMMs and norms give;
    // attention's results and the residual stream are checkpoints: quadratic, or behind another reduce-scatter. Where
    // whole layers are recomputed the block input is the only checkpoint.
    bool cheap = false;
    // `lean`: never saved. Pointwise kernels make it again whatever the unit's fate: norms before a layer's backward,
    // the activation's output in the pass that makes its gradient.
    bool transient = false;
};

// The table for the scenario's inventory: `runtime` is what our runtime saves, `lean` the same without what pointwise
// kernels give, `paper` the figures of SPPO Fig. 9, for comparisons. Attention's recompute cost is per token of an average position, half the sequence.
std::vector<ActivationTensor> activation_inventory(const Scenario&);

// Bytes of one layer and one subsequence on one rank, exact for the runtime inventory's integer sizes.
Bytes unit_bytes(const Scenario&, Subsequence);   // class 1: the unit that is kept or offloaded (A_i of one layer)
Bytes cheap_bytes(const Scenario&, Subsequence);  // the part of it that the recompute fate drops; 0 for `paper`
Bytes transient_bytes(const Scenario&, Subsequence);  // beside it, while the layer's forward or backward runs; `lean`
Bytes kv_bytes(const Scenario&, Subsequence);     // class 0
// The tensors of a unit in the inventory's order; of its cheap part, or of the rest; or what is transient beside it.
// Empty for `paper`.
enum class UnitPart : std::uint8_t { kWhole, kCheap, kRest, kTransient };
std::vector<SavedTensor> saved_tensors(const Scenario&, Subsequence, UnitPart);
Bytes kv_gradient_bytes(const Scenario&, Subsequence);

}  // namespace sluice
