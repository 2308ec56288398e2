// When buffers live in the order in which a rank's thread issues its ops.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

// Positions among the ops of the buffer's rank, as listed; both ends included.
struct Life {
    std::uint32_t first = 1, last = 0;
    bool never() const { return first > last; }
};

// By buffer: from its first user to its last; a persistent buffer from its rank's first op to the last (position 0
// where the rank has no op). Requires: ids and ranks in range, accesses within the rank.
std::vector<Life> buffer_lives(const Schedule& schedule);

// The ops of every rank as listed.
std::vector<std::vector<OpId>> ops_by_rank(const Schedule& schedule);

}  // namespace sluice
