#include "runtime/block_releases.h"

#include <algorithm>

#include "schedule/block_taker.h"
#include "schedule/lane_index.h"

namespace sluice {
namespace {

// The last place in a lane at which each block is used, in descending order of places.
template <class Visit>
void for_each_last_use(const Schedule& schedule, std::span<const OpId> lane, const std::vector<std::size_t>& first,
                       const Visit& visit) {
    BlockTaker taker(first, first.back());
    for (std::size_t place = lane.size(); place > 0; --place)
        for (const Access& access : schedule.ops[index(lane[place - 1])].accesses)
            if (!schedule.buffers[index(access.buffer)].persistent)
                taker.take(access, [&](std::size_t block) { visit(place, static_cast<std::uint32_t>(block)); });
}

}  // namespace

BlockReleases::BlockReleases(const Schedule& schedule, Rank rank) {
    std::vector<std::size_t> first = {0};  // of a buffer, in places_; those of other ranks have no blocks here
    for (const Buffer& buffer : schedule.buffers) {
        if (buffer.rank == rank)
            for (std::uint32_t k = 0; k < buffer.block_count(); ++k) places_.push_back({buffer.id, k});
        first.push_back(places_.size());
    }
    users_.assign(places_.size(), 0);
    const LaneIndex lanes(schedule);
    for (std::uint32_t lane = 0; lane < lanes.lane_count(rank); ++lane) {
        const std::span<const OpId> ops = lanes.ops(rank, lane);
        std::vector<std::vector<std::uint32_t>> by_place(ops.size());
        for_each_last_use(schedule, ops, first, [&](std::size_t place, std::uint32_t block) {
            by_place[place - 1].push_back(block);
            ++users_[block];
        });
        std::vector<std::uint32_t>& begins = first_.emplace_back(1, 0U);
        std::vector<std::uint32_t>& released = released_.emplace_back();
        for (const std::vector<std::uint32_t>& blocks : by_place) {
            released.insert(released.end(), blocks.begin(), blocks.end());
            begins.push_back(static_cast<std::uint32_t>(released.size()));
        }
    }
}

}  // namespace sluice
