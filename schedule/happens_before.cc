#include "schedule/happens_before.h"

#include <algorithm>
#include <utility>

#include "schedule/topological_order.h"

namespace sluice {

std::optional<HappensBefore> HappensBefore::of(const Schedule& schedule) {
    LaneIndex lanes(schedule);
    const auto order = topological_order(schedule, lanes);
    if (!order) return std::nullopt;
    HappensBefore result(schedule, std::move(lanes));
    for (const OpId op : *order) result.enter(schedule.ops[index(op)]);
    return result;
}

HappensBefore::HappensBefore(const Schedule& schedule, LaneIndex lanes) : lanes_(std::move(lanes)) {
    first_clock_.reserve(schedule.ops.size() + 1);
    first_clock_.push_back(0);
    for (const Op& op : schedule.ops) first_clock_.push_back(first_clock_.back() + lanes_.lane_count(op.rank));
    clocks_.assign(first_clock_.back(), 0);
}

void HappensBefore::enter(const Op& op) {
    const std::uint32_t place = lanes_.place(op.id);
    if (place > 1) wait_for(op.id, lanes_.ops(op.rank, lanes_.lane(op.id))[place - 2]);
    for (const OpId earlier : op.after) wait_for(op.id, earlier);
}

void HappensBefore::wait_for(OpId op, OpId earlier) {
    std::uint32_t* const clock = clocks_.data() + first_clock_[index(op)];
    const auto other = ended(earlier);
    for (std::size_t lane = 0; lane < other.size(); ++lane) clock[lane] = std::max(clock[lane], other[lane]);
    const std::uint32_t lane = lanes_.lane(earlier);
    clock[lane] = std::max(clock[lane], lanes_.place(earlier));
}

std::span<const std::uint32_t> HappensBefore::ended(OpId op) const {
    const std::uint64_t first = first_clock_[index(op)];
    return std::span(clocks_).subspan(first, first_clock_[index(op) + 1] - first);
}

}  // namespace sluice
