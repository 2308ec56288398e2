// Where every op stands: its lane among the lanes of its rank, and its place in that lane.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

// Lanes of a rank are numbered from 0 in the order of `Lane`; places in a lane from 1, in listed order. Two numbers
// per op, so that "the first n ops of lane l" is a pair of integers everywhere.
class LaneIndex {
public:
    // Requires: op ids dense, ranks in range.
    explicit LaneIndex(const Schedule& schedule);

    std::uint32_t lane(OpId op) const { return position_[index(op)].lane; }
    std::uint32_t place(OpId op) const { return position_[index(op)].place; }

    std::uint32_t lane_count(Rank rank) const { return first_lane_[index(rank) + 1] - first_lane_[index(rank)]; }
    Lane lane_at(Rank rank, std::uint32_t lane) const { return lanes_[first_lane_[index(rank)] + lane]; }
    std::optional<std::uint32_t> find(Rank rank, Lane lane) const;

    // The ops of a lane in order; the op at place p is ops(...)[p - 1].
    std::span<const OpId> ops(Rank rank, std::uint32_t lane) const;

private:
    struct Position {
        std::uint32_t lane = 0, place = 0;
    };
    std::vector<Position> position_;         // by op
    std::vector<std::uint32_t> first_lane_;  // by rank, one more at the end: index into lanes_
    std::vector<Lane> lanes_;                // of all ranks
    std::vector<std::uint32_t> first_op_;    // by index into lanes_, one more at the end: index into ops_
    std::vector<OpId> ops_;
};

}  // namespace sluice
