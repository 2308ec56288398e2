// All ops in an order that lane order and `after` allow.
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "schedule/lane_index.h"
#include "schedule/schedule.h"

namespace sluice {

// The listed order where that is one already (planners write it so), otherwise the listed order with every op preceded
// by what it still waits for: deterministic, linear. Empty when lane order and `after` form a cycle.
// Requires: ids dense and in range, `after` within the rank.
std::optional<std::vector<OpId>> topological_order(const Schedule& schedule, const LaneIndex& lanes);

}  // namespace sluice
