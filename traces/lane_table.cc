#include "traces/lane_table.h"

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

auto order(const TraceLane& lane) { return std::tuple(lane.rank, lane.role, lane.peer); }

bool before(const TraceLane& a, const TraceLane& b) { return order(a) < order(b); }

TraceLane lane_of(const Op& op) { return {op.rank, lane_role(op.lane.kind), op.lane.peer}; }

}  // namespace

LaneRole lane_role(LaneKind kind) {
    switch (kind) {
        case LaneKind::kCompute:
            return LaneRole::kCompute;
        case LaneKind::kCopyOut:
            return LaneRole::kCopyOut;
        case LaneKind::kCopyIn:
            return LaneRole::kCopyIn;
        case LaneKind::kCollective:
            return LaneRole::kCollective;
        case LaneKind::kSend:
            return LaneRole::kSend;
        case LaneKind::kReceive:
            return LaneRole::kReceive;
    }
    return LaneRole::kCompute;
}

LaneTable lane_table(const Schedule& schedule) {
    // A rank has a handful of lanes, so each rank's are found by a linear search.
    std::vector<std::vector<TraceLane>> by_rank(schedule.ranks.size());
    for (const Op& op : schedule.ops) {
        std::vector<TraceLane>& own = by_rank[index(op.rank)];
        const TraceLane lane = lane_of(op);
        if (std::find(own.begin(), own.end(), lane) == own.end()) own.push_back(lane);
    }
    LaneTable table;
    std::vector<std::size_t> first;
    for (std::vector<TraceLane>& own : by_rank) {
        std::sort(own.begin(), own.end(), before);
        first.push_back(table.lanes.size());
        table.lanes.insert(table.lanes.end(), own.begin(), own.end());
    }
    table.of_op.reserve(schedule.ops.size());
    for (const Op& op : schedule.ops) {
        const std::vector<TraceLane>& own = by_rank[index(op.rank)];
        const auto at = std::lower_bound(own.begin(), own.end(), lane_of(op), before);
        table.of_op.push_back(
            static_cast<std::uint32_t>(first[index(op.rank)] + static_cast<std::size_t>(at - own.begin())));
    }
    return table;
}

}  // namespace sluice
