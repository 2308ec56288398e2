#include "schedule/buffer_uses.h"

#include <algorithm>

namespace sluice {
namespace {

struct Touch {
    std::uint32_t lane, place;
    friend auto operator<=>(const Touch&, const Touch&) = default;
};

// Accesses sorted by buffer, in listed order within a buffer.
struct Touches {
    std::vector<std::uint64_t> first;  // by buffer, one more at the end
    std::vector<Touch> list;
};

Touches touches_by_buffer(const Schedule& schedule, const LaneIndex& lanes) {
    Touches result;
    result.first.assign(schedule.buffers.size() + 1, 0);
    for (const Op& op : schedule.ops)
        for (const Access& access : op.accesses) ++result.first[index(access.buffer) + 1];
    for (std::size_t b = 0; b < schedule.buffers.size(); ++b) result.first[b + 1] += result.first[b];
    result.list.resize(result.first.back());
    std::vector<std::uint64_t> next(result.first.begin(), result.first.end() - 1);
    for (const Op& op : schedule.ops)
        for (const Access& access : op.accesses)
            result.list[next[index(access.buffer)]++] = {lanes.lane(op.id), lanes.place(op.id)};
    return result;
}

}  // namespace

BufferUses::BufferUses(const Schedule& schedule, const LaneIndex& lanes) {
    Touches touches = touches_by_buffer(schedule, lanes);
    first_.push_back(0);
    for (std::size_t b = 0; b < schedule.buffers.size(); ++b) {
        const auto own = std::span(touches.list).subspan(touches.first[b], touches.first[b + 1] - touches.first[b]);
        std::sort(own.begin(), own.end());
        for (const Touch& touch : own) {
            if (uses_.size() == first_.back() || uses_.back().lane != touch.lane)
                uses_.push_back({touch.lane, touch.place, touch.place});
            uses_.back().last = touch.place;
        }
        first_.push_back(static_cast<std::uint32_t>(uses_.size()));
    }
}

std::span<const LaneUse> BufferUses::of(BufferId buffer) const {
    const std::uint32_t first = first_[index(buffer)];
    return std::span(uses_).subspan(first, first_[index(buffer) + 1] - first);
}

}  // namespace sluice
