// Who uses a buffer: for every lane that touches it, the first and the last place at which it does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/lane_index.h"
#include "schedule/schedule.h"

namespace sluice {

struct LaneUse {
    std::uint32_t lane = 0;             // among the lanes of the buffer's rank
    std::uint32_t first = 0, last = 0;  // places in the lane
};

// What ordering two buffers needs and no more: A is over before B begins exactly when the last op of A on every lane
// happens before the first op of B on every lane.
class BufferUses {
public:
    // Requires: ids in range, accesses to buffers of the op's own rank.
    BufferUses(const Schedule& schedule, const LaneIndex& lanes);

    std::span<const LaneUse> of(BufferId buffer) const;  // by lane; empty: never used
    std::size_t first_slot(BufferId buffer) const { return first_[index(buffer)]; }
    std::size_t slots() const { return uses_.size(); }  // entries of all buffers together

private:
    std::vector<std::uint32_t> first_;  // by buffer, one more at the end: index into uses_
    std::vector<LaneUse> uses_;
};

}  // namespace sluice
