#include "sim/simulate.h"

#include <new>
#include <span>

#include "sim/build_trace.h"
#include "sim/child_process.h"
#include "sim/lane_table.h"
#include "sim/op_graph.h"
#include "schedule/op_matches.h"
#include "sim/replay.h"
#include "sim/stuck_ops.h"

namespace sluice {

Simulation simulate(const Schedule& schedule, const Cluster& cluster, const Calibration& calibration,
                    const SimulateOptions& options) {
    const LaneTable lanes = lane_table(schedule);
    const OpGraph graph(schedule, lanes);
    const OpMatches matches(schedule);

    const std::size_t ops = schedule.ops.size();
    const SharedMemory runs_memory(ops * sizeof(OpRun)), counters_memory(sizeof(ReplayCounters));
    const std::span<OpRun> runs(static_cast<OpRun*>(runs_memory.data()), ops);
    for (OpRun& run : runs) new (&run) OpRun;
    ReplayCounters& counters = *new (counters_memory.data()) ReplayCounters;

    std::function<void()> poll;
    if (options.progress) {
        poll = [&] {
            const auto ended = static_cast<double>(counters.ops_ended.load(std::memory_order_relaxed));
            options.progress(ops == 0 ? 1 : ended / static_cast<double>(ops));
        };
    }
    run_in_child(
        "simulation", [&] { replay(schedule, graph, matches, cluster, calibration, runs, counters); }, poll);

    Simulation result;
    result.activities = counters.activities;
    result.stuck = stuck_ops(schedule, lanes, graph, matches, runs);
    if (result.stuck.empty()) {
        result.trace = build_trace(schedule, lanes, graph, matches, runs, cluster, calibration, options);
    }
    return result;
}

}  // namespace sluice
