// FLOPs of the model, not of the machine: nothing recomputed, the causal half counted exactly.
#pragma once

#include "base/units.h"
#include "models/layer_kernels.h"
#include "scenarios/scenario.h"

namespace sluice {

// Forward GEMM and attention FLOPs of one layer over all ranks of a sequence-parallel group, for one subsequence.
// `uncut` counts every query against every key up to the subsequence's end, as if the mask did not cut
// its last square (the paper's Fig. 5 sizes fit this count).
Flops layer_forward_flops(const Scenario&, Subsequence, CausalCount);

// One training step: forward and backward (3x the forward GEMMs and attention products) of all layers and of the head,
// all sequences of the batch. The numerator of MFU.
Flops step_model_flops(const Scenario&);

}  // namespace sluice
