#include "traces/lane_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "example_trace.h"
#include "random_trace.h"
#include "trace_builder.h"
#include "traces/find_event.h"

namespace sluice {
namespace {

struct Parts {
    double work = 0, warm_up = 0, bubble = 0, d2h = 0, h2d = 0, comm = 0, memory = 0, drain = 0;
};

void expect_parts(const LaneTime& t, const Parts& want, const char* what) {
    EXPECT_DOUBLE_EQ(t.work.value, want.work) << what;
    EXPECT_DOUBLE_EQ(t.warm_up.value, want.warm_up) << what;
    EXPECT_DOUBLE_EQ(t.bubble.value, want.bubble) << what;
    EXPECT_DOUBLE_EQ(t.exposed_d2h.value, want.d2h) << what;
    EXPECT_DOUBLE_EQ(t.exposed_h2d.value, want.h2d) << what;
    EXPECT_DOUBLE_EQ(t.exposed_comm.value, want.comm) << what;
    EXPECT_DOUBLE_EQ(t.memory_wait.value, want.memory) << what;
    EXPECT_DOUBLE_EQ(t.drain.value, want.drain) << what;
}

// The worked example of docs/traces.md; example_trace.cc has the picture.
TEST(LaneTime, ExplainsTheExample) {
    const std::vector<LaneTime> times = lane_times(example_trace());
    ASSERT_EQ(times.size(), 2U);
    // Rank 0. Work: F0 2, F1 2, B 1. F1 waits 2-4 for the offload. B waits 6-9: 8-9 the gradient travels (comm), 7-8
    // rank 1 computes and 6-7 rank 1 receives (both bubble).
    expect_parts(times[0], {.work = 5, .bubble = 2, .d2h = 2, .comm = 1}, "rank 0");
    // Rank 1. Work: 1.5 and 1. Before it begins at 3: 2-3 the activation travels (comm), 0-2 rank 0 computes (warm-up).
    // Gap 4.5-7: 6-7 the activation travels, 4.5-6 rank 0 computes. After 8 it has nothing to do: the step ends with
    // rank 0's B.
    expect_parts(times[1], {.work = 2.5, .warm_up = 2, .bubble = 1.5, .comm = 2, .drain = 2}, "rank 1");
}

TEST(LaneTime, CountsTheExamplesBubblesBothWays) {
    const Trace trace = example_trace();
    const BubbleShare share = bubble_share(trace, lane_times(trace));
    EXPECT_DOUBLE_EQ(share.of_step, 7.5 / 20);  // 2 and 5.5 of 10 each
    EXPECT_DOUBLE_EQ(share.of_work, 7.5 / 7.5);
}

// One rank (and a neighbour, rank 1) with a gap from 1 to 5 between two compute ops; `fill` says what lies in it and
// what the second op waited for.
struct GapCase {
    const char* name;
    WaitedFor (*fill)(TraceBuilder&, OpId first);
    Parts want;  // without the work, 2
};

enum Lanes : std::uint32_t {
    kCompute,
    kOut,
    kIn,
    kCollective,
    kSend,
    kReceive,
    kCompute1,
    kOut1,
    kCollective1,
    kSend1
};

Trace gap_trace(const GapCase& c) {
    TraceBuilder t;
    for (const LaneRole role : {LaneRole::kCompute, LaneRole::kCopyOut, LaneRole::kCopyIn, LaneRole::kCollective})
        t.lane(0, role);
    t.lane(0, LaneRole::kSend, Rank{1}), t.lane(0, LaneRole::kReceive, Rank{1});
    for (const LaneRole role : {LaneRole::kCompute, LaneRole::kCopyOut, LaneRole::kCollective}) t.lane(1, role);
    t.lane(1, LaneRole::kSend, Rank{0});
    const OpId first = t.op(kCompute, 0, 1);
    const WaitedFor waited = c.fill(t, first);
    t.op(kCompute, 5, 6, waited);
    return t.trace;
}

const GapCase kGapCases[] = {
    {"a copy out frees what the op writes to",
     [](TraceBuilder& t, OpId first) { return reuse(t.op(kOut, 1, 5, data(first))); },
     {.d2h = 4}},
    {"a copy in brings what the op reads, and began before the gap",
     [](TraceBuilder& t, OpId) { return data(t.op(kIn, 0, 5)); },
     {.h2d = 4}},
    {"a copy in waits in its lane for another one",
     [](TraceBuilder& t, OpId first) {
         const OpId earlier = t.op(kIn, 1, 2, data(first));
         return data(t.op(kIn, 2, 5, after_lane(earlier)));
     },
     {.h2d = 4}},
    {"a copy in waits for the copy out that frees its target",
     [](TraceBuilder& t, OpId first) {
         const OpId out = t.op(kOut, 1, 3, data(first));
         return data(t.op(kIn, 3, 5, reuse(out)));
     },
     {.d2h = 2, .h2d = 2}},
    {"a collective",
     [](TraceBuilder& t, OpId first) { return data(t.op(kCollective, 1, 5, data(first))); },
     {.comm = 4}},
    {"a collective whose partner still computed: together they start at 3",
     [](TraceBuilder& t, OpId) {
         const OpId slow = t.op(kCompute1, 0, 3);
         const OpId partner = t.op(kCollective1, 3, 5, data(slow));
         return data(t.op(kCollective, 3, 5, match(partner)));
     },
     {.bubble = 2, .comm = 2}},
    {"a collective whose partner waited for its own offload: exposed there, a bubble here",
     [](TraceBuilder& t, OpId) {
         const OpId out = t.op(kOut1, 0, 3);
         const OpId partner = t.op(kCollective1, 3, 5, data(out));
         return data(t.op(kCollective, 3, 5, match(partner)));
     },
     {.bubble = 2, .comm = 2}},
    {"a receive whose sender was busy sending to this rank: both transfers feed it",
     [](TraceBuilder& t, OpId) {
         const OpId earlier = t.op(kSend1, 0, 3);
         const OpId sender = t.op(kSend1, 3, 5, after_lane(earlier));
         return data(t.op(kReceive, 3, 5, match(sender)));
     },
     {.comm = 4}},
    {"a send still reads what the op writes to: no copy, so a wait for memory",
     [](TraceBuilder& t, OpId first) { return reuse(t.op(kSend, 1, 5, data(first))); },
     {.memory = 4}},
    {"a send that feeds a copy: the data come from a transfer",
     [](TraceBuilder& t, OpId first) {
         const OpId send = t.op(kSend, 1, 2, data(first));
         return data(t.op(kIn, 2, 5, data(send)));
     },
     {.h2d = 3, .comm = 1}},
    {"no blocker at all", [](TraceBuilder&, OpId) { return WaitedFor{}; }, {.bubble = 4}},
    {"a blocker that has no event", [](TraceBuilder&, OpId) { return data(OpId{1000}); }, {.bubble = 4}},
    {"the op started later than its blocker ended",
     [](TraceBuilder& t, OpId first) { return data(t.op(kIn, 1, 4, data(first))); },
     {.bubble = 1, .h2d = 3}},
    {"the copy started later than its blocker ended",
     [](TraceBuilder& t, OpId) { return data(t.op(kIn, 3, 5)); },
     {.bubble = 2, .h2d = 2}},
    {"the op after the previous one of its lane, for no reason",
     [](TraceBuilder&, OpId first) { return after_lane(first); },
     {.bubble = 4}},
    {"a blocker that ends after the op begins (clocks differ)",
     [](TraceBuilder& t, OpId) { return data(t.op(kIn, 4, 6)); },
     {.bubble = 3, .h2d = 1}},
    {"a chain that goes round in a circle",
     [](TraceBuilder& t, OpId) {
         const OpId a{1}, b{2};
         t.op(kIn, 5, 5, match(b)), t.op(kOut, 5, 5, data(a));
         return data(b);
     },
     {.bubble = 4}},
};

TEST(LaneTime, ExplainsAGap) {
    for (GapCase c : kGapCases) {
        c.want.work = 2;
        expect_parts(lane_times(gap_trace(c)).front(), c.want, c.name);
    }
}

TEST(LaneTime, NamesTheBubblesAtBothEnds) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute), t.lane(0, LaneRole::kCopyOut), t.lane(0, LaneRole::kCopyIn),
        t.lane(1, LaneRole::kCompute);
    const OpId load = t.op(2, 1, 2);  // starts at 1 for no recorded reason
    const OpId op = t.op(0, 2, 3, data(load));
    t.op(3, 0, 0.5);
    t.op(1, 3, 5, data(op));
    t.trace.step = Seconds{6};
    const std::vector<LaneTime> times = lane_times(t.trace);
    // What is exposed stays exposed, at the ends too: the first reload (1-2) and the last offload (3-5).
    expect_parts(times[0], {.work = 1, .warm_up = 1, .d2h = 2, .h2d = 1, .drain = 1}, "rank 0");
    // For rank 1 the same last offload is a neighbour's, and nothing that it waits for itself.
    expect_parts(times[1], {.work = 0.5, .drain = 5.5}, "rank 1");
}

TEST(LaneTime, CountsRecomputationAsWorkAndApart) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute);
    const OpId forward = t.op(0, 0, 2);
    t.op(0, 2, 5, after_lane(forward), "recompute");
    const LaneTime time = lane_times(t.trace).front();
    EXPECT_DOUBLE_EQ(time.work.value, 5);
    EXPECT_DOUBLE_EQ(time.recompute.value, 3);
    EXPECT_DOUBLE_EQ(time.total().value, 5);
}

TEST(LaneTime, OfARankThatNeverComputesIsAllWarmUp) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute), t.lane(1, LaneRole::kCompute);
    t.op(1, 0, 2);
    expect_parts(lane_times(t.trace)[0], {.warm_up = 2}, "rank 0");
    EXPECT_TRUE(lane_times(Trace{}).empty());
    EXPECT_EQ(bubble_share(Trace{}, {}).of_step, 0);
}

TEST(LaneTime, EmptyOpsDoNotCountAGapTwice) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute);
    t.op(0, 0, 1), t.op(0, 2, 2), t.op(0, 3, 4);
    expect_parts(lane_times(t.trace)[0], {.work = 2, .bubble = 2}, "rank 0");
}

// p stages, N subsequences, forward 1 s, backward 2 s, transfers free: the textbook bubble.
Trace ideal_pipeline(std::uint32_t p, std::uint32_t n) {
    TraceBuilder t;
    for (std::uint32_t s = 0; s < p; ++s) t.lane(s, LaneRole::kCompute);
    std::vector<OpId> last(p, kNoOp);
    const auto add = [&](std::uint32_t s, OpId upstream, double duration, const char* phase) {
        WaitedFor waited;
        double begin = 0;
        if (last[s] != kNoOp) waited = after_lane(last[s]), begin = t.event(last[s]).end.value;
        // A neighbour's op stands in for the transfer of no time between them.
        if (upstream != kNoOp && t.event(upstream).end.value > begin)
            waited = data(upstream), begin = t.event(upstream).end.value;
        return last[s] = t.op(s, begin, begin + duration, waited, phase);
    };
    for (std::uint32_t i = 0; i < n; ++i)
        for (std::uint32_t s = 0; s < p; ++s) add(s, s == 0 ? kNoOp : last[s - 1], 1, "forward");
    for (std::uint32_t i = 0; i < n; ++i)
        for (std::uint32_t s = p; s-- > 0;) add(s, s + 1 == p ? kNoOp : last[s + 1], 2, "backward");
    return t.trace;
}

TEST(LaneTime, GivesTheTextbookBubbles) {
    for (const auto& [p, n] : {std::pair{1U, 4U}, std::pair{4U, 16U}, std::pair{8U, 3U}, std::pair{4U, 1U}}) {
        const Trace trace = ideal_pipeline(p, n);
        const BubbleShare share = bubble_share(trace, lane_times(trace));
        EXPECT_NEAR(share.of_step, double(p - 1) / (n + p - 1), 1e-12) << p << " stages";
        EXPECT_NEAR(share.of_work, double(p - 1) / n, 1e-12) << p << " stages";
    }
}

// ---- Properties, on random replays
// -----------------------------------------------------------------------------------

TEST(LaneTime, PartsSumToTheStep) {
    for (std::uint32_t seed = 0; seed < 300; ++seed) {
        const Trace trace = random_trace(seed, {.ranks = 1 + seed % 5, .tasks = seed % 97});
        for (const LaneTime& t : lane_times(trace)) {
            EXPECT_NEAR(t.total().value, trace.step.value, 1e-12 * (1 + trace.step.value)) << "seed " << seed;
            for (const Seconds part :
                 {t.work, t.warm_up, t.bubble, t.exposed_d2h, t.exposed_h2d, t.exposed_comm, t.memory_wait, t.drain})
                EXPECT_GE(part, Seconds{0}) << "seed " << seed;
        }
    }
}

// A rank without neighbours waits only for itself: copies explain all its idle time.
TEST(LaneTime, OfOneRankHasNoBubble) {
    Seconds exposed{};
    for (std::uint32_t seed = 0; seed < 100; ++seed) {
        const Trace trace = random_trace(seed, {.ranks = 1, .tasks = 50, .communication = false});
        const LaneTime t = lane_times(trace).front();
        EXPECT_NEAR((t.work + t.exposed_d2h + t.exposed_h2d).value, trace.step.value, 1e-12 * (1 + trace.step.value))
            << "seed " << seed;
        exposed += t.exposed_d2h + t.exposed_h2d;
    }
    EXPECT_GT(exposed, Seconds{1});  // the property is not empty
}

// The rules of docs/traces.md once more, for one moment: what did the chain of `op`, which starts later, do at `m`?
// "" when it does not say.
std::string doing(const Trace& trace, Rank rank, const TraceEvent& op, Seconds m) {
    if (op.blocker == kNoOp) return "";
    const TraceEvent& b = *find_event(trace, op.blocker);
    if (op.wait == Wait::kMatch || m < b.begin) return doing(trace, rank, b, m);
    if (m > b.end) return "";
    const TraceLane& lane = trace.lanes[b.lane];
    if (lane.rank != rank) return lane.role == LaneRole::kSend && lane.peer == rank ? "comm" : "";
    if (lane.role == LaneRole::kCopyOut) return "d2h";
    if (lane.role == LaneRole::kCopyIn) return "h2d";
    if (lane.role == LaneRole::kCompute) return "";
    return op.wait == Wait::kReuse ? "memory" : "comm";
}

std::vector<Seconds> instants(const Trace& trace) {
    std::set<Seconds> all{Seconds{0}, trace.step};
    for (const TraceEvent& e : trace.events) all.insert({e.begin, e.end});
    return {all.begin(), all.end()};
}

// Asks at the middle between any two neighbouring instants.
LaneTime reference(const Trace& trace, Rank rank) {
    std::vector<const TraceEvent*> compute;
    TraceEvent end_of_step;
    end_of_step.wait = Wait::kData;
    for (const TraceEvent& e : trace.events) {
        const TraceLane& lane = trace.lanes[e.lane];
        if (lane.rank == rank && lane.role == LaneRole::kCompute) compute.push_back(&e);
        const auto* last = find_event(trace, end_of_step.blocker);
        const bool better = last == nullptr || e.end > last->end ||
                            (e.end == last->end && lane.rank == rank && trace.lanes[last->lane].rank != rank);
        if (better) end_of_step.blocker = e.op;
    }
    LaneTime t;
    const std::vector<Seconds> at = instants(trace);
    for (std::size_t i = 1; i < at.size(); ++i) {
        const Seconds length = at[i] - at[i - 1], m = at[i - 1] + length / 2;
        const auto next = std::find_if(compute.begin(), compute.end(), [&](const TraceEvent* e) { return e->end > m; });
        if (next != compute.end() && (*next)->begin <= m) {
            t.work += length;
            continue;
        }
        const bool last_gap = next == compute.end();
        const std::string what = doing(trace, rank, last_gap ? end_of_step : **next, m);
        const bool started = !compute.empty() && compute.front()->begin <= m;
        Seconds& part = what == "d2h"      ? t.exposed_d2h
                        : what == "h2d"    ? t.exposed_h2d
                        : what == "comm"   ? t.exposed_comm
                        : what == "memory" ? t.memory_wait
                        : !started         ? t.warm_up
                        : last_gap         ? t.drain
                                           : t.bubble;
        part += length;
    }
    return t;
}

TEST(LaneTime, AgreesWithTheRulesAskedMomentByMoment) {
    LaneTime seen;
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        const Trace trace = random_trace(seed, {.ranks = 1 + seed % 4, .tasks = 30 + seed % 40});
        for (const LaneTime& t : lane_times(trace)) {
            const LaneTime want = reference(trace, t.rank);
            for (const auto part :
                 {&LaneTime::work, &LaneTime::warm_up, &LaneTime::bubble, &LaneTime::exposed_d2h,
                  &LaneTime::exposed_h2d, &LaneTime::exposed_comm, &LaneTime::memory_wait, &LaneTime::drain}) {
                EXPECT_NEAR((t.*part).value, (want.*part).value, 1e-9) << "seed " << seed << ", rank " << index(t.rank);
                seen.*part += t.*part;
            }
        }
    }
    for (const auto part : {&LaneTime::work, &LaneTime::warm_up, &LaneTime::bubble, &LaneTime::exposed_d2h,
                            &LaneTime::exposed_h2d, &LaneTime::exposed_comm, &LaneTime::memory_wait, &LaneTime::drain})
        EXPECT_GT(seen.*part, Seconds{1});  // every part is met
}

}  // namespace
}  // namespace sluice
