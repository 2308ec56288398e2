// Memory placement: gives every buffer its offset in the device or host arena of its rank and adds the `after` edges
// that sharing bytes needs (rule 5), so that prefetch depth is bounded by the schedule and peak memory is a static
// fact.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "schedule/schedule.h"

namespace sluice {

inline constexpr Bytes kPlacementAlignment = 512_B;

// What lives, by kind, at the op of a rank where most bytes live at once, in issue order.
struct LivePeak {
    OpId op = kNoOp;
    Bytes bytes{};                              // sum of by_kind; buffer sizes rounded up to kPlacementAlignment
    std::array<Bytes, kBufferKinds> by_kind{};  // indexed by BufferKind
};

struct ArenaUse {
    Bytes arena{};  // end of the highest buffer: what must be allocated, >= live.bytes
    LivePeak live;
};

struct Placement {
    std::vector<ArenaUse> device;  // by rank
    std::vector<ArenaUse> host;    // by rank: its pinned arena
};

// Life in issue order: from a buffer's first user to its last user in the order its rank lists its ops; a persistent
// buffer from the rank's first op to its last. Bytes freed by an op may be used by the next op listed.
// Requires: no buffer is placed yet, and that each rank's listed order respects its own lane order and `after`.
// Never looks at capacities: compare Placement with them, or let verify() do it. Deterministic.
Placement place_memory(Schedule& schedule);

// The same peaks without placing anything.
std::vector<LivePeak> live_peaks(const Schedule& schedule, Space space);

}  // namespace sluice
