// Cuts a sequence into N causal subsequences (SPPO section 4, "FLOPs-based partitioning").
#pragma once

#include <vector>

#include "models/layer_kernels.h"
#include "scenarios/scenario.h"

namespace sluice {

// By the scenario's partition policy; boundaries on multiples of its alignment, every length at least one alignment.
//   flops  equal forward FLOPs of a layer (causal half counted exactly, or uncut); later tokens are dearer, so earlier
//          subsequences are longer. Nothing here assumes an order: it follows from the count.
//   cost   equal time of a layer's forward and backward kernels by the calibration
//   equal  equal lengths; the first ones take what is left over
//   list   as given
// Requires: n x alignment <= sequence, sequence a multiple of the alignment (read_scenario checks both).
std::vector<Subsequence> partition_sequence(const Scenario&);

}  // namespace sluice
