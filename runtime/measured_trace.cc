#include "runtime/measured_trace.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "traces/lane_table.h"
#include "traces/run_trace.h"
#include "traces/slice_trace.h"

namespace sluice {
namespace {

// An op that needs partners is on its lane's hands as soon as its own rank is ready; it begins when all are.
std::vector<OpRun> op_runs(const StepTimes& times, const OpMatches& matches) {
    const auto seconds = [&](std::int64_t at) { return static_cast<double>(at - times.begin) * 1e-9; };
    std::vector<OpRun> runs;
    runs.reserve(times.ops.size());
    for (const OpTimes& op : times.ops) runs.push_back({seconds(op.begin), seconds(op.end)});
    for (std::uint32_t m = 0; m < matches.size(); ++m) {
        double begin = 0;
        for (const OpId member : matches.members(m))
            if (member != kNoOp) begin = std::max(begin, runs[index(member)].begin);
        for (const OpId member : matches.members(m))
            if (member != kNoOp) runs[index(member)].begin = std::min(begin, runs[index(member)].end);
    }
    return runs;
}

}  // namespace

Trace measured_trace(const Schedule& schedule, const StepTimes& times, Provenance provenance) {
    const OpMatches matches(schedule);
    RunTraceOptions options;
    options.kernel_ends = [&](const Op& op, const TraceEvent& event, std::span<Seconds> ends) {
        const std::span<const std::int64_t> laps = times.laps_of(op.id);
        for (std::size_t k = 0; k < ends.size(); ++k)
            ends[k] = std::min(event.end, Seconds{static_cast<double>(laps[k] - times.begin) * 1e-9});
        if (!ends.empty()) ends.back() = event.end;
    };
    Trace trace =
        run_trace(schedule, lane_table(schedule), OpGraph(schedule), matches, op_runs(times, matches), options);
    trace.provenance = std::move(provenance);
    if (trace.provenance.producer.empty()) trace.provenance.producer = "cpu runtime";
    return trace;
}

Trace measured_slice_trace(const Schedule& slice, Rank rank, StepTimes times, Provenance provenance) {
    const OpMatches matches(slice);
    for (std::uint32_t m = 0; m < matches.size(); ++m) {
        const auto members = matches.members(m);
        const auto own = std::find_if(members.begin(), members.end(),
                                      [&](OpId op) { return op != kNoOp && slice.ops[index(op)].rank == rank; });
        for (const OpId member : members)
            if (member != kNoOp && own != members.end()) times.ops[index(member)] = times.ops[index(*own)];
    }
    Trace trace = measured_trace(slice, times, std::move(provenance));
    keep_memory_of(trace, slice, rank);
    return trace;
}

}  // namespace sluice
