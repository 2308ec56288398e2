#include "traces/run_trace.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "schedule/memory_timeline.h"
#include "schedule/offload_flows.h"
#include "schedule/op_class.h"
#include "traces/blockers.h"

namespace sluice {
namespace {

// Numbers labels in the order in which they are first used.
class Labels {
public:
    explicit Labels(std::vector<std::string>& names) : names_(names) {}

    // Requires: `text` lives as long as this; the names of enums do.
    std::uint32_t of(std::string_view text) {
        const auto [at, is_new] = known_.emplace(text, static_cast<std::uint32_t>(names_.size()));
        if (is_new) names_.emplace_back(text);
        return at->second;
    }

private:
    std::vector<std::string>& names_;
    std::map<std::string_view, std::uint32_t> known_;
};

struct MovedBytes {
    Bytes operator()(const Compute&) const { return Bytes{0}; }
    Bytes operator()(const Copy& w) const { return w.bytes; }
    Bytes operator()(const Send& w) const { return w.bytes; }
    Bytes operator()(const Receive& w) const { return w.bytes; }
    Bytes operator()(const Collective& w) const { return w.bytes * static_cast<std::int64_t>(w.calls); }
};

TraceEvent event_of(const Op& op, const OpRun& run, const Blocker& blocker) {
    TraceEvent event;
    event.op = op.id;
    event.begin = Seconds{run.begin};
    event.end = Seconds{run.end};
    event.blocker = blocker.op;
    event.wait = blocker.wait;
    event.stage = op.tag.stage;
    event.layer = op.tag.layer;
    event.subsequence = op.tag.subsequence;
    event.part = op.tag.part;
    event.bytes = std::visit(MovedBytes{}, op.work);
    return event;
}

void add_kernels(const Compute& compute, std::uint32_t event, const TraceEvent& span, std::span<const Seconds> ends,
                 Labels& labels, std::vector<KernelSpan>& kernels) {
    Seconds begin = span.begin;
    for (std::size_t k = 0; k < compute.kernels.size(); ++k) {
        const Kernel& kernel = compute.kernels[k];
        kernels.push_back({event, labels.of(op_class(kernel.shape)), kernel.count, begin, ends[k]});
        begin = ends[k];
    }
}

void add_memory(const Schedule& schedule, std::span<const OpRun> runs, Labels& labels, Trace& trace) {
    for (const PoolTimeline& timeline : memory_timelines(schedule, runs)) {
        MemoryPool pool;
        pool.host = timeline.host;
        pool.owner = timeline.owner;
        pool.capacity =
            timeline.host ? schedule.hosts[timeline.owner].capacity : schedule.ranks[timeline.owner].device_capacity;
        pool.arena = timeline.arena;
        pool.peak_time = timeline.peak_time;
        pool.peak_op = timeline.peak_op;
        for (std::size_t k = 0; k < kBufferKinds; ++k) {
            if (timeline.peak_kinds[k] == Bytes{0}) continue;
            pool.peak_kinds.emplace_back(labels.of(name(static_cast<BufferKind>(k))), timeline.peak_kinds[k]);
        }
        std::sort(pool.peak_kinds.begin(), pool.peak_kinds.end());
        const auto id = static_cast<std::uint32_t>(trace.pools.size());
        trace.pools.push_back(std::move(pool));
        for (const LiveSample& sample : timeline.samples) trace.memory.push_back({id, sample.time, sample.live});
    }
}

std::size_t count_kernels(const Schedule& schedule) {
    std::size_t count = 0;
    for (const Op& op : schedule.ops) {
        if (const auto* compute = std::get_if<Compute>(&op.work)) count += compute->kernels.size();
    }
    return count;
}

}  // namespace

Trace run_trace(const Schedule& schedule, const LaneTable& lanes, const OpGraph& graph, const OpMatches& matches,
                std::span<const OpRun> runs, const RunTraceOptions& options) {
    Trace trace;
    trace.lanes = lanes.lanes;
    trace.events.reserve(schedule.ops.size());
    if (options.kernel_ends) trace.kernels.reserve(count_kernels(schedule));
    Labels labels(trace.labels);
    const std::vector<std::uint32_t> flows = offload_flows(schedule);
    const Blockers blockers(schedule, graph, matches, runs);
    std::vector<Seconds> ends;
    for (const Op& op : schedule.ops) {
        TraceEvent event = event_of(op, runs[index(op.id)], blockers.of(op.id));
        event.lane = lanes.of_op[index(op.id)];
        event.label = labels.of(name(op.tag.phase));
        event.flow = flows[index(op.id)];
        if (const auto* compute = std::get_if<Compute>(&op.work); compute != nullptr && options.kernel_ends) {
            const auto id = static_cast<std::uint32_t>(trace.events.size());
            ends.resize(compute->kernels.size());
            options.kernel_ends(op, event, ends);
            add_kernels(*compute, id, event, ends, labels, trace.kernels);
        }
        trace.step = std::max(trace.step, event.end);
        trace.events.push_back(event);
    }
    if (options.memory) add_memory(schedule, runs, labels, trace);
    return trace;
}

}  // namespace sluice
