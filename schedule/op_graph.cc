#include "schedule/op_graph.h"

#include <numeric>

#include "schedule/lane_index.h"

namespace sluice {

OpGraph::OpGraph(const Schedule& schedule)
    : lane_predecessor_(schedule.ops.size(), kNoOp),
      predecessor_counts_(schedule.ops.size(), 0),
      first_(schedule.ops.size() + 1, 0) {
    const LaneIndex lanes(schedule);
    for (const Op& op : schedule.ops) {
        const std::uint32_t place = lanes.place(op.id);
        if (place > 1) lane_predecessor_[index(op.id)] = lanes.ops(op.rank, lanes.lane(op.id))[place - 2];
    }
    const auto each_edge = [&](const auto& visit) {
        for (const Op& op : schedule.ops) {
            const OpId before = lane_predecessor_[index(op.id)];
            if (before != kNoOp) visit(before, op.id);
            for (const OpId after : op.after) visit(after, op.id);
        }
    };
    // Counted first, then filled in: three arrays instead of a vector per op.
    each_edge([&](OpId from, OpId to) {
        ++first_[index(from) + 1];
        ++predecessor_counts_[index(to)];
    });
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    successors_.resize(first_.back());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    each_edge([&](OpId from, OpId to) { successors_[next[index(from)]++] = to; });
}

}  // namespace sluice
