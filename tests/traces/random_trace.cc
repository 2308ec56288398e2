#include "random_trace.h"

#include <algorithm>
#include <random>
#include <tuple>

#include "trace_builder.h"

namespace sluice {
namespace {

// A replay in miniature: tasks are drawn one after the other, each starts when its lane is free, the ops it waits for
// have ended and, for partners, all of them are ready.
class Replay {
public:
    Replay(std::uint32_t seed, const RandomTraceOptions& options) : random_(seed), options_(options) {
        add_lanes();
        for (const char* label : {"forward", "backward", "recompute", "gemm", "norm", "activation", "kv"})
            builder_.label(label);
        lane_last_.assign(builder_.trace.lanes.size(), kNoOp);
        rank_ops_.resize(options.ranks);
    }

    Trace run() {
        for (std::size_t i = 0; i < options_.tasks; ++i) add_task();
        add_kernels();
        add_memory();
        return builder_.trace;
    }

private:
    struct Ready {
        Seconds time{};
        WaitedFor waited;
    };

    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
    Seconds duration() { return Seconds{below(4) == 0 ? 0 : static_cast<double>(random_()) / 3e9}; }

    void add_lanes() {
        for (std::uint32_t r = 0; r < options_.ranks; ++r) {
            for (const LaneRole role :
                 {LaneRole::kCompute, LaneRole::kCopyOut, LaneRole::kCopyIn, LaneRole::kCollective})
                builder_.lane(r, role);
            for (const LaneRole role : {LaneRole::kSend, LaneRole::kReceive})
                for (std::uint32_t peer = 0; peer < options_.ranks; ++peer)
                    if (peer != r) builder_.lane(r, role, Rank{peer});
        }
    }

    std::uint32_t lane(std::uint32_t rank, LaneRole role, Rank peer = kNoRank) const {
        const auto& lanes = builder_.trace.lanes;
        const auto found = std::find(lanes.begin(), lanes.end(), TraceLane{Rank{rank}, role, peer});
        return static_cast<std::uint32_t>(found - lanes.begin());
    }

    Ready ready(std::uint32_t lane) {
        Ready at;
        const auto wait_for = [&](OpId op, Wait wait) {
            if (builder_.event(op).end >= at.time) at = {builder_.event(op).end, {wait, op}};
        };
        if (lane_last_[lane] != kNoOp) wait_for(lane_last_[lane], Wait::kLane);
        const std::vector<OpId>& ops = rank_ops_[index(builder_.trace.lanes[lane].rank)];
        for (std::uint32_t n = below(3); n > 0 && !ops.empty(); --n) {
            const std::size_t recent = std::min<std::size_t>(ops.size(), 8);
            wait_for(ops[ops.size() - 1 - below(static_cast<std::uint32_t>(recent))],
                     below(3) == 0 ? Wait::kReuse : Wait::kData);
        }
        return at;
    }

    // Partners (or one op alone) on these lanes.
    void add(const std::vector<std::uint32_t>& lanes) {
        std::vector<Ready> at;
        at.reserve(lanes.size());
        for (const std::uint32_t lane : lanes) at.push_back(ready(lane));
        const auto last =
            std::max_element(at.begin(), at.end(), [](const Ready& a, const Ready& b) { return a.time < b.time; });
        const Seconds begin = last->time, end = begin + duration();
        const std::size_t first_op = builder_.trace.events.size();
        const OpId last_op = id_at<OpId>(first_op + static_cast<std::size_t>(last - at.begin()));
        for (std::size_t i = 0; i < lanes.size(); ++i) {
            const WaitedFor waited = at[i].time < begin ? match(last_op) : at[i].waited;
            const char* phases[] = {"forward", "backward", "recompute"};
            const OpId op = builder_.op(lanes[i], begin.value, end.value, waited, phases[below(3)]);
            describe(builder_.event(op));
            lane_last_[lanes[i]] = op;
            rank_ops_[index(builder_.trace.lanes[lanes[i]].rank)].push_back(op);
        }
    }

    void describe(TraceEvent& e) {
        const LaneRole role = builder_.trace.lanes[e.lane].role;
        e.stage = static_cast<std::int32_t>(below(3)) - 1;
        e.layer = static_cast<std::int32_t>(below(40)) - 1;
        e.subsequence = static_cast<std::int32_t>(below(300)) - 1;
        e.part = static_cast<std::int32_t>(below(2)) - 1;
        if (role != LaneRole::kCompute) e.bytes = Bytes{static_cast<std::int64_t>(random_()) << below(10)};
        if (role == LaneRole::kCopyOut) e.flow = ++flows_;
        if (role == LaneRole::kCopyIn && flows_ > 0) e.flow = 1 + below(flows_);
    }

    void add_task() {
        const std::uint32_t rank = below(options_.ranks),
                            other = (rank + 1 + below(std::max(options_.ranks, 2U) - 1)) % options_.ranks;
        switch (below(options_.communication && options_.ranks > 1 ? 8 : 5)) {
            case 3:
                return add({lane(rank, LaneRole::kCopyOut)});
            case 4:
                return add({lane(rank, LaneRole::kCopyIn)});
            case 5:
            case 6:
                return add({lane(rank, LaneRole::kSend, Rank{other}), lane(other, LaneRole::kReceive, Rank{rank})});
            case 7: {
                std::vector<std::uint32_t> lanes;
                for (std::uint32_t r = 0; r < options_.ranks; ++r) lanes.push_back(lane(r, LaneRole::kCollective));
                return add(lanes);
            }
            default:
                return add({lane(rank, LaneRole::kCompute)});
        }
    }

    // Two kernels in every other compute op.
    void add_kernels() {
        for (const TraceEvent& e : builder_.trace.events) {
            if (builder_.trace.lanes[e.lane].role != LaneRole::kCompute || below(2) == 0) continue;
            const Seconds middle = e.begin + (e.end - e.begin) * 0.3;
            builder_.kernel(e.op, "gemm", e.begin.value, middle.value, 1 + below(4));
            builder_.kernel(e.op, "norm", middle.value, e.end.value);
        }
    }

    void add_memory() {
        for (std::uint32_t r = 0; r <= options_.ranks; ++r) {
            const std::uint32_t pool = builder_.pool(r == options_.ranks, r % options_.ranks, 80_GiB);
            for (std::uint32_t i = 0; i < 10; ++i)
                builder_.live(pool, builder_.trace.step.value * i / 10, static_cast<std::int64_t>(random_()) * 7);
            builder_.trace.pools[pool].peak_kinds = {
                {builder_.label("activation"), Bytes{static_cast<std::int64_t>(random_())}},
                {builder_.label("kv"), 1_GiB}};
        }
    }

    std::mt19937 random_;
    const RandomTraceOptions& options_;
    TraceBuilder builder_;
    std::vector<OpId> lane_last_;
    std::vector<std::vector<OpId>> rank_ops_;
    std::uint32_t flows_ = 0;
};

}  // namespace

Trace random_trace(std::uint32_t seed, const RandomTraceOptions& options) { return Replay(seed, options).run(); }

}  // namespace sluice
