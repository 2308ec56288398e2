// replay() in a child process, its findings brought back.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/replay.h"

namespace sluice {

struct ReplayFindings {
    std::vector<OpRun> runs;  // by op
    std::uint64_t activities = 0;
};

// `progress` may be empty; it is called as simulate() says. Throws what run_in_child() does.
ReplayFindings run_replay(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches,
                          const Cluster& cluster, const Calibration& calibration, const PinnedMemory& pinned,
                          const std::function<void(double)>& progress);

}  // namespace sluice
