// Which op is the last of its lane to use a block: what must have ended before nobody in the step needs the block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

struct BlockPlace {
    BufferId buffer{};
    std::uint32_t block = 0;
};

// A block is free when `users` ops (one per lane that uses it) have released it. Persistent buffers are never released.
class BlockReleases {
public:
    BlockReleases(const Schedule& schedule, Rank rank);

    std::size_t blocks() const { return places_.size(); }
    const BlockPlace& place(std::uint32_t block) const { return places_[block]; }
    std::uint32_t users(std::uint32_t block) const { return users_[block]; }

    // The blocks (indices below blocks()) that the op at `place`, from 1, of a lane of the rank releases.
    std::span<const std::uint32_t> of(std::uint32_t lane, std::uint32_t place) const {
        const std::vector<std::uint32_t>& first = first_[lane];
        return std::span(released_[lane]).subspan(first[place - 1], first[place] - first[place - 1]);
    }

private:
    std::vector<BlockPlace> places_;
    std::vector<std::uint32_t> users_;
    std::vector<std::vector<std::uint32_t>> first_;     // by lane, then place - 1, one more at the end: into released_
    std::vector<std::vector<std::uint32_t>> released_;  // by lane
};

}  // namespace sluice
