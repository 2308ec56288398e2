// A trace from a schedule and the times at which its ops ran: the one way in which replays and real runs make theirs.
#pragma once

#include <functional>
#include <span>

#include "base/units.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "schedule/op_run.h"
#include "schedule/schedule.h"
#include "traces/lane_table.h"
#include "traces/trace.h"

namespace sluice {

// Fills `ends` with when each kernel of a compute op ended, in order: within the op's event, the last one with it. A
// kernel begins when the one before has ended, the first with the op.
using KernelEnds = std::function<void(const Op& op, const TraceEvent& event, std::span<Seconds> ends)>;

struct RunTraceOptions {
    KernelEnds kernel_ends;  // empty: no kernel sub-spans
    bool memory = true;      // samples and peaks
};

// Everything but the provenance. Blockers are found as blockers.h says, memory as memory_timeline.h does; the step ends
// with its last op. Requires: every op has run; lanes, graph and matches of this schedule.
Trace run_trace(const Schedule& schedule, const LaneTable& lanes, const OpGraph& graph, const OpMatches& matches,
                std::span<const OpRun> runs, const RunTraceOptions& options);

}  // namespace sluice
