// What an op waits for by rules 1 and 2: the op before it in its lane, and the ops of its `after`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

class OpGraph {
public:
    explicit OpGraph(const Schedule& schedule);

    // kNoOp for the first of its lane.
    OpId lane_predecessor(OpId op) const { return lane_predecessor_[index(op)]; }

    // Ascending; an op that follows both in the lane and by `after` is listed twice, and counted twice.
    std::span<const OpId> successors(OpId op) const {
        return {successors_.data() + first_[index(op)], successors_.data() + first_[index(op) + 1]};
    }
    const std::vector<std::uint32_t>& predecessor_counts() const { return predecessor_counts_; }

private:
    std::vector<OpId> lane_predecessor_;
    std::vector<std::uint32_t> predecessor_counts_;
    std::vector<std::uint32_t> first_;  // of an op, in successors_
    std::vector<OpId> successors_;
};

}  // namespace sluice
