// The trace of a replay that ran to its end.
#pragma once

#include <span>

#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "schedule/schedule.h"
#include "traces/lane_table.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "sim/replay.h"
#include "sim/simulate.h"
#include "traces/trace.h"

namespace sluice {

// Everything but the scenario's name and the fingerprints.
Trace build_trace(const Schedule& schedule, const LaneTable& lanes, const OpGraph& graph, const OpMatches& matches,
                  std::span<const OpRun> runs, const Cluster& cluster, const Calibration& calibration,
                  const SimulateOptions& options);

}  // namespace sluice
