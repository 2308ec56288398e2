// Is a schedule one that can be run, and run right? The only guard between a planner and silent wrong gradients.
#pragma once

#include "base/diagnostic.h"
#include "schedule/schedule.h"

namespace sluice {

// Every problem found, ordered by op then rule; empty: the schedule is valid. Never throws, whatever the schedule holds.
// When ids or ranges are broken only those are reported, since nothing else can be asked safely.
// Offsets and capacities are checked for buffers that have an offset. Linear in ops + accesses, up to log factors.
// Rules: docs/schedule.md, one invalid example each in tests/golden/invalid/.
Diagnostics verify(const Schedule& schedule);

}  // namespace sluice
