#include "schedule/lane_index.h"

#include <algorithm>
#include <map>

namespace sluice {

LaneIndex::LaneIndex(const Schedule& schedule) : position_(schedule.ops.size()) {
    std::vector<std::map<Lane, std::uint32_t>> sizes(schedule.ranks.size());  // ops per lane
    for (const Op& op : schedule.ops) ++sizes[index(op.rank)][op.lane];

    first_lane_.push_back(0);
    first_op_.push_back(0);
    for (const auto& of_rank : sizes) {
        for (const auto& [lane, size] : of_rank) {
            lanes_.push_back(lane);
            first_op_.push_back(first_op_.back() + size);
        }
        first_lane_.push_back(static_cast<std::uint32_t>(lanes_.size()));
    }

    ops_.resize(schedule.ops.size());
    std::vector<std::uint32_t> filled(lanes_.size(), 0);
    for (const Op& op : schedule.ops) {
        const std::uint32_t lane = *find(op.rank, op.lane);
        const std::uint32_t global = first_lane_[index(op.rank)] + lane;
        ops_[first_op_[global] + filled[global]] = op.id;
        position_[index(op.id)] = {lane, ++filled[global]};
    }
}

std::optional<std::uint32_t> LaneIndex::find(Rank rank, Lane lane) const {
    const auto begin = lanes_.begin() + first_lane_[index(rank)];
    const auto end = lanes_.begin() + first_lane_[index(rank) + 1];
    const auto found = std::lower_bound(begin, end, lane);
    if (found == end || *found != lane) return std::nullopt;
    return static_cast<std::uint32_t>(found - begin);
}

std::span<const OpId> LaneIndex::ops(Rank rank, std::uint32_t lane) const {
    const std::uint32_t global = first_lane_[index(rank)] + lane;
    return std::span(ops_).subspan(first_op_[global], first_op_[global + 1] - first_op_[global]);
}

}  // namespace sluice
