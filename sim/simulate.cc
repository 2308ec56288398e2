#include "sim/simulate.h"

#include "sim/build_trace.h"
#include "traces/lane_table.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "sim/run_replay.h"
#include "schedule/stuck_ops.h"

namespace sluice {

Simulation simulate(const Schedule& schedule, const Cluster& cluster, const Calibration& calibration,
                    const SimulateOptions& options) {
    const LaneTable lanes = lane_table(schedule);
    const OpGraph graph(schedule);
    const OpMatches matches(schedule);

    const PinnedMemory pinned = place_pinned(pinned_bytes(schedule, cluster.host.allocator), cluster);
    const ReplayFindings found =
        run_replay(schedule, graph, matches, cluster, calibration, pinned, options.progress);

    Simulation result;
    result.activities = found.activities;
    result.stuck = stuck_ops(schedule, graph, matches, found.runs);
    if (result.stuck.empty() && !options.events) {
        for (const OpRun& run : found.runs) result.trace.step = std::max(result.trace.step, Seconds{run.end});
    } else if (result.stuck.empty()) {
        result.trace = build_trace(schedule, lanes, graph, matches, found.runs, cluster, calibration, options);
    }
    return result;
}

}  // namespace sluice
