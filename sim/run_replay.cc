#include "sim/run_replay.h"

#include <new>
#include <span>

#include "sim/child_process.h"

namespace sluice {

ReplayFindings run_replay(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches,
                          const Cluster& cluster, const Calibration& calibration, const PinnedMemory& pinned,
                          const std::function<void(double)>& progress) {
    const std::size_t ops = schedule.ops.size();
    const SharedMemory runs_memory(ops * sizeof(OpRun)), counters_memory(sizeof(ReplayCounters));
    const std::span<OpRun> runs(static_cast<OpRun*>(runs_memory.data()), ops);
    for (OpRun& run : runs) new (&run) OpRun;
    ReplayCounters& counters = *new (counters_memory.data()) ReplayCounters;

    std::function<void()> poll;
    if (progress) {
        poll = [&] {
            const auto ended = static_cast<double>(counters.ops_ended.load(std::memory_order_relaxed));
            progress(ops == 0 ? 1 : ended / static_cast<double>(ops));
        };
    }
    run_in_child(
        "simulation", [&] { replay(schedule, graph, matches, cluster, calibration, pinned, runs, counters); }, poll);
    return {{runs.begin(), runs.end()}, counters.activities};
}

}  // namespace sluice
