#include "sim/build_trace.h"

#include <algorithm>

#include "models/kernel_cost.h"
#include "sim/provenance.h"
#include "traces/run_trace.h"

namespace sluice {
namespace {

// The kernels of an op share its time, however long interference made it, in proportion to what each takes alone.
void share_time(const Compute& compute, const TraceEvent& event, const Calibration& calibration,
                std::span<Seconds> ends) {
    if (ends.empty()) return;
    const double alone = compute_time(compute, calibration).value;
    const double stretch = alone > 0 ? (event.end - event.begin).value / alone : 0;
    double done = 0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
        done += kernel_time(compute.kernels[k], calibration).value;
        ends[k] = std::min(event.end, event.begin + Seconds{done * stretch});
    }
    ends.back() = event.end;
}

}  // namespace

Trace build_trace(const Schedule& schedule, const LaneTable& lanes, const OpGraph& graph, const OpMatches& matches,
                  std::span<const OpRun> runs, const Cluster& cluster, const Calibration& calibration,
                  const SimulateOptions& options) {
    RunTraceOptions wanted;
    wanted.memory = options.memory;
    if (options.kernels) {
        wanted.kernel_ends = [&](const Op& op, const TraceEvent& event, std::span<Seconds> ends) {
            share_time(std::get<Compute>(op.work), event, calibration, ends);
        };
    }
    Trace trace = run_trace(schedule, lanes, graph, matches, runs, wanted);
    trace.provenance = replay_provenance(schedule.ranks.size(), cluster, calibration);
    return trace;
}

}  // namespace sluice
