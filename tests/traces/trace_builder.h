// Builds small traces by hand, for tests.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "traces/trace.h"

namespace sluice {

// What an op waited for: data(x), reuse(x) ... read as "it waited for the data of x".
struct WaitedFor {
    Wait wait = Wait::kNone;
    OpId blocker = kNoOp;
};
inline WaitedFor after_lane(OpId op) { return {Wait::kLane, op}; }
inline WaitedFor data(OpId op) { return {Wait::kData, op}; }
inline WaitedFor reuse(OpId op) { return {Wait::kReuse, op}; }
inline WaitedFor match(OpId op) { return {Wait::kMatch, op}; }

// Lanes must be asked for in sorted order, before the first event: they are indices.
struct TraceBuilder {
    Trace trace;

    std::uint32_t label(std::string_view text) {
        const auto found = std::find(trace.labels.begin(), trace.labels.end(), text);
        if (found != trace.labels.end()) return static_cast<std::uint32_t>(found - trace.labels.begin());
        trace.labels.emplace_back(text);
        return static_cast<std::uint32_t>(trace.labels.size() - 1);
    }

    std::uint32_t lane(std::uint32_t rank, LaneRole role, Rank peer = kNoRank) {
        trace.lanes.push_back({Rank{rank}, role, peer});
        return static_cast<std::uint32_t>(trace.lanes.size() - 1);
    }

    // The step grows with its events.
    OpId op(std::uint32_t lane, double begin, double end, WaitedFor waited = {}, std::string_view phase = "forward") {
        TraceEvent e;
        e.op = id_at<OpId>(trace.events.size());
        e.lane = lane;
        e.begin = Seconds{begin};
        e.end = Seconds{end};
        e.wait = waited.wait;
        e.blocker = waited.blocker;
        e.label = label(phase);
        trace.events.push_back(e);
        trace.step = std::max(trace.step, e.end);
        return e.op;
    }
    TraceEvent& event(OpId op) { return trace.events[index(op)]; }

    void kernel(OpId op, std::string_view op_class, double begin, double end, std::uint32_t count = 1) {
        trace.kernels.push_back(
            {static_cast<std::uint32_t>(index(op)), label(op_class), count, Seconds{begin}, Seconds{end}});
    }

    std::uint32_t pool(bool host, std::uint32_t owner, Bytes capacity) {
        trace.pools.push_back({host, owner, capacity, capacity, Seconds{0}, kNoOp, {}});
        return static_cast<std::uint32_t>(trace.pools.size() - 1);
    }
    void live(std::uint32_t pool, double time, std::int64_t bytes) {
        trace.memory.push_back({pool, Seconds{time}, Bytes{bytes}});
    }
};

}  // namespace sluice
