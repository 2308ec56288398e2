// The lanes of a schedule, numbered as the trace numbers them.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

struct LaneTable {
    std::vector<TraceLane> lanes;      // those that have ops; sorted by rank, role, peer
    std::vector<std::uint32_t> of_op;  // index into lanes
};

LaneRole lane_role(LaneKind);

LaneTable lane_table(const Schedule& schedule);

}  // namespace sluice
