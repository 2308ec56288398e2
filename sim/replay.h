// Replays a schedule on a simulated machine: decides when every op may start, by the rules of schedule/schedule.h, and
// lets the machine say how long it takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "base/ids.h"
#include "models/pinned_memory.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "schedule/op_run.h"
#include "schedule/schedule.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"

namespace sluice {

// Written while the replay runs, read by another process.
struct ReplayCounters {
    std::atomic<std::uint64_t> ops_ended{0};
    std::uint64_t activities = 0;  // at the end
};

// Fills `runs`, one per op. Ops that cannot start keep -1. Call it once per process.
// `pinned` says where copies go. Requires: graph and matches of this schedule, one entry of `pinned` per rank.
void replay(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches, const Cluster& cluster,
            const Calibration& calibration, const PinnedMemory& pinned, std::span<OpRun> runs,
            ReplayCounters& counters);

}  // namespace sluice
