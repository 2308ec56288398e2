// Traces of one rank's slice of a schedule.
#pragma once

#include "schedule/slice_rank.h"
#include "traces/trace.h"

namespace sluice {

// A trace of the whole schedule, cut to the slice: its ops under the slice's ids, at the times of the whole step, which
// is as long as it was. What an op waits for and the memory that lives are found again among what is left. Provenance
// stays but for the schedule's fingerprint, which is no longer true. Requires: an event for every op of the slice.
Trace slice_trace(const Trace& whole, const RankSlice& slice);

// Leaves the memory of the rank alone: its device, and the pinned memory of its node.
void keep_memory_of(Trace& trace, const Schedule& schedule, Rank rank);

}  // namespace sluice
