// The ops of one rank as its thread issues them, worked out once before the first step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

// Happens when the first `place` ops of a lane of the same rank have ended. Lanes are numbered as RankProgram::lanes.
struct LaneEvent {
    std::uint32_t lane = 0, place = 0;
    friend bool operator==(const LaneEvent&, const LaneEvent&) = default;
};

// An op on its way to its lane.
struct IssuedOp {
    OpId op{};
    LaneEvent at;                      // its lane, and its place in it, from 1: the event that it has ended
    std::span<const LaneEvent> waits;  // on other lanes, at most one each: its `after`, without what its lane and its
                                       // other waits imply. Of ops issued before it.
};

struct RankProgram {
    Rank rank{};
    std::vector<Lane> lanes;              // sorted
    std::vector<std::uint32_t> lane_ops;  // by lane: how many ops
    std::vector<IssuedOp> ops;  // in issue order: as listed where that respects lanes and `after`, but a receive as
                                // late as its rank's other messages and what waits for it allow
    std::vector<LaneEvent> waits;         // what the spans of `ops` refer to

    RankProgram() = default;
    RankProgram(RankProgram&&) = default;  // keeps spans valid; a copy would not
    RankProgram& operator=(RankProgram&&) = default;
};

// Of these ranks, in their order. Throws InputError where lane order and `after` form a cycle: nothing could be issued
// first. Requires: ids, ranks and `after` in range, `after` within the rank; messages need no partner here.
std::vector<RankProgram> rank_programs(const Schedule& schedule, std::span<const Rank> ranks);

}  // namespace sluice
