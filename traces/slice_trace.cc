#include "traces/slice_trace.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "traces/find_event.h"
#include "traces/lane_table.h"
#include "traces/run_trace.h"

namespace sluice {
namespace {

// The kernels of an event of the whole trace, as the slice's options want them.
KernelEnds kernel_ends(const Trace& whole, const RankSlice& slice) {
    if (whole.kernels.empty()) return {};
    return [&whole, &slice](const Op& op, const TraceEvent& event, std::span<Seconds> ends) {
        const TraceEvent* from = find_event(whole, slice.op_of[index(op.id)]);
        const auto number = static_cast<std::uint32_t>(from - whole.events.data());
        auto kernel = std::lower_bound(whole.kernels.begin(), whole.kernels.end(), number,
                                       [](const KernelSpan& k, std::uint32_t wanted) { return k.event < wanted; });
        for (Seconds& end : ends) end = kernel == whole.kernels.end() ? event.end : (kernel++)->end;
    };
}

}  // namespace

Trace slice_trace(const Trace& whole, const RankSlice& slice) {
    std::vector<OpRun> runs;
    for (const OpId op : slice.op_of) {
        const TraceEvent* event = find_event(whole, op);
        SLUICE_CHECK(event != nullptr, "the trace of a whole schedule has all ops");
        runs.push_back({event->begin.value, event->end.value});
    }
    const Schedule& schedule = slice.schedule;
    Trace out = run_trace(schedule, lane_table(schedule), OpGraph(schedule), OpMatches(schedule), runs,
                          {kernel_ends(whole, slice), !whole.pools.empty()});
    out.provenance = whole.provenance;
    out.provenance.schedule_fingerprint.clear();
    out.step = whole.step;
    keep_memory_of(out, schedule, slice.rank);
    return out;
}

void keep_memory_of(Trace& trace, const Schedule& schedule, Rank rank) {
    constexpr std::uint32_t kGone = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> pool_at;
    std::vector<MemoryPool> pools;
    for (MemoryPool& pool : trace.pools) {
        const bool own = pool.owner == (pool.host ? index(schedule.ranks[index(rank)].host) : index(rank));
        pool_at.push_back(own ? static_cast<std::uint32_t>(pools.size()) : kGone);
        if (own) pools.push_back(std::move(pool));
    }
    trace.pools = std::move(pools);
    std::erase_if(trace.memory, [&](const MemorySample& sample) { return pool_at[sample.pool] == kGone; });
    for (MemorySample& sample : trace.memory) sample.pool = pool_at[sample.pool];
}

}  // namespace sluice
