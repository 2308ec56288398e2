// Says which buffer kinds exceed which limit, on which ranks, at which op.
#pragma once

#include <string>
#include <vector>

#include "planner/folded_step.h"
#include "scenarios/scenario.h"
#include "schedule/place_memory.h"

namespace sluice {

// One line per stage whose device arena exceeds the GPU, and per NUMA node or node whose ranks pin more than it has
// (models/pinned_memory.h); empty: fits. Requires: the folded schedule is placed.
std::vector<std::string> capacity_report(const Scenario&, const Schedule& folded, const Placement& folded_placement);

}  // namespace sluice
