// Is a schedule one that can be run, and run right? The only guard between a planner and silent wrong gradients.
#pragma once

#include "base/diagnostic.h"
#include "schedule/schedule.h"

namespace sluice {

// Every problem found, ordered by op then rule; empty: the schedule is valid. Never throws, whatever the schedule
// holds. Problems are looked for in three layers: ids and ranges, single ops, the whole schedule. Each layer is asked
// only when the ones before are clean, since its questions would have no safe or useful answer. Where one mistake would
// repeat (a shifted id, a collective out of step) its first occurrence stands for the rest. Offsets and capacities are
// checked for buffers that have an offset. Time is linear in ops, accesses and the blocks that they touch, up to log
// factors; memory in ops and accesses. Rules: docs/schedule-rules.md, one invalid example each in
// tests/golden/invalid/.
Diagnostics verify(const Schedule& schedule);

}  // namespace sluice
