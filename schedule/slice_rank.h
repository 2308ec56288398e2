// One rank's part of a schedule, to be run or looked at alone.
#pragma once

#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

// A schedule of its own, which obeys all rules that the whole one does: all ranks keep their numbers, the rank has all
// its ops and buffers, and its partners have the other ends of its messages and nothing else: no accesses, no `after`.
// Groups without the rank are left out. Offsets are kept, so that its arenas have the same bytes.
struct RankSlice {
    Schedule schedule;
    Rank rank{};
    std::vector<OpId> op_of;  // by op of the slice: the op of the whole schedule; ascending
};

// Requires: a verified schedule, a rank of it.
RankSlice slice_rank(const Schedule& schedule, Rank rank);

}  // namespace sluice
