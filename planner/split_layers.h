// How the layers of the model are split over pipeline stages.
#pragma once

#include <string>
#include <vector>

#include "planner/plan.h"
#include "scenarios/scenario.h"

namespace sluice {

// The layers of each stage, so that the slowest stage is as fast as can be, with the first one's embedding and the last
// one's head counted, in time by the cost model over the subsequences. As even as that allows, the first stages taking
// what is left over; where the even split is as fast, to 1%, the even split. The scenario's own list, where it has one.
std::vector<StagePlan> split_layers(const Scenario&, const std::vector<Subsequence>&);

// "stages of 9, 8, 8, 7 layers: ..." where they differ, else "".
std::string split_note(const Scenario&, const Plan&);

}  // namespace sluice
