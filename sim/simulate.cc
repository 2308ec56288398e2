#include "sim/simulate.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "sim/build_trace.h"
#include "traces/lane_table.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "sim/run_replay.h"
#include "schedule/stuck_ops.h"

namespace sluice {
namespace {

PinnedMemory pinned_memory(const Schedule& schedule, const Cluster& cluster) {
    return place_pinned(pinned_bytes(schedule, cluster.host.allocator), cluster);
}

Seconds length(std::span<const OpRun> runs) {
    Seconds step{};
    for (const OpRun& run : runs) step = std::max(step, Seconds{run.end});
    return step;
}

}  // namespace

Simulation simulate(const Schedule& schedule, const Cluster& cluster, const Calibration& calibration,
                    const SimulateOptions& options) {
    const LaneTable lanes = lane_table(schedule);
    const OpGraph graph(schedule);
    const OpMatches matches(schedule);

    const ReplayFindings found = run_replay(schedule, graph, matches, cluster, calibration,
                                            pinned_memory(schedule, cluster), options.progress);

    Simulation result;
    result.activities = found.activities;
    result.stuck = stuck_ops(schedule, graph, matches, found.runs);
    if (result.stuck.empty() && !options.events) {
        result.trace.step = length(found.runs);
    } else if (result.stuck.empty()) {
        result.trace = build_trace(schedule, lanes, graph, matches, found.runs, cluster, calibration, options);
    }
    return result;
}

Seconds replay_here(const Schedule& schedule, const Cluster& cluster, const Calibration& calibration) {
    std::vector<OpRun> runs(schedule.ops.size());
    ReplayCounters counters;
    replay(schedule, OpGraph(schedule), OpMatches(schedule), cluster, calibration, pinned_memory(schedule, cluster),
           runs, counters);
    SLUICE_CHECK(counters.ops_ended == runs.size(), "a schedule that is replayed for its length runs to its end");
    return length(runs);
}

}  // namespace sluice
