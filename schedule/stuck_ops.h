// Why a replay or a run stopped before its end.
#pragma once

#include <span>

#include "base/diagnostic.h"
#include "schedule/schedule.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "schedule/op_run.h"

namespace sluice {

// One diagnostic, rule "stuck", per lane with ops that never ran: the op at its head and all that it waits for. Empty
// when everything ran. In the order of the lanes.
Diagnostics stuck_ops(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches,
                      std::span<const OpRun> runs);

}  // namespace sluice
