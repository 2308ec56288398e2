// FLOPs of the model, not of the machine: nothing recomputed, the causal half counted exactly.
#pragma once

#include "base/units.h"
#include "models/layer_kernels.h"
#include "scenarios/scenario.h"

namespace sluice {

// Forward GEMM and attention FLOPs of one layer over all ranks of a sequence-parallel group, for one subsequence.
// `uncut` counts a prefix's attention as the whole square, as formulas that ignore the mask do: twice the exact number.
// The sizes in the paper's Fig. 5 fit a partition by this count.
Flops layer_forward_flops(const Scenario&, Subsequence, CausalCount);

// One training step: forward and backward (3x the forward GEMMs and attention products) of all layers and of the head,
// all sequences of the batch. The numerator of MFU.
Flops step_model_flops(const Scenario&);

}  // namespace sluice
