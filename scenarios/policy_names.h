// How a policy's choices are called, in scenario files and in reports.
#pragma once

#include <string>
#include <string_view>

#include "scenarios/scenario.h"

namespace sluice {

std::string_view name(SequenceParallelKind);  // megatron ulysses
std::string_view name(PartitionKind);      // flops cost equal list
std::string name(const PlacementPolicy&);  // none full "ratio 0.5" adaptive recompute three-way
std::string_view name(RecomputeScope);     // all_but_attention layer
std::string_view name(TraversalOrder);     // subsequence layer

}  // namespace sluice
