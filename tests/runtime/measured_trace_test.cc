#include "runtime/measured_trace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/runtime/toy_step.h"
#include "traces/find_event.h"
#include "traces/trace_check.h"

namespace sluice {
namespace {

StepTimes by_hand(const Schedule& schedule) {
    StepTimes times(schedule);
    times.begin = 1000;
    const std::pair<std::int64_t, std::int64_t> spans[] = {{0, 100},   {110, 300}, {105, 210}, {310, 400},
                                                           {410, 500}, {5, 212},   {220, 600}};
    for (std::size_t i = 0; i < 7; ++i) times.ops[i] = {1000 + spans[i].first, 1000 + spans[i].second};
    times.laps = {1040, 1098, 1399, 1590};
    return times;
}

Seconds ns(std::int64_t value) { return Seconds{static_cast<double>(value) * 1e-9}; }

TEST(MeasuredTrace, SaysWhenOpsRanAndWhy) {
    const Schedule schedule = parse(kTwoRanks);
    const Trace trace = measured_trace(schedule, by_hand(schedule), {});
    EXPECT_EQ(check_trace(trace), "");
    EXPECT_EQ(trace.provenance.producer, "cpu runtime");
    EXPECT_EQ(trace.step, ns(600));
    ASSERT_EQ(trace.events.size(), 7U);
    const auto event = [&](std::uint32_t op) { return *find_event(trace, OpId{op}); };
    struct Row {
        std::uint32_t op;
        std::int64_t begin, end;
        OpId blocker;
        Wait wait;
    };
    const Row rows[] = {
        {0, 0, 100, kNoOp, Wait::kNone},      {1, 110, 300, OpId{0}, Wait::kData},
        {2, 105, 210, OpId{0}, Wait::kData},  {3, 310, 400, OpId{1}, Wait::kReuse},
        {4, 410, 500, OpId{3}, Wait::kReuse}, {5, 105, 212, OpId{2}, Wait::kMatch},  // begins with its send
        {6, 220, 600, OpId{5}, Wait::kData},
    };
    for (const Row& row : rows) {
        EXPECT_EQ(event(row.op).begin, ns(row.begin)) << row.op;
        EXPECT_EQ(event(row.op).end, ns(row.end)) << row.op;
        EXPECT_EQ(event(row.op).blocker, row.blocker) << row.op;
        EXPECT_EQ(event(row.op).wait, row.wait) << row.op;
    }
    EXPECT_EQ(event(1).flow, event(4).flow);
    EXPECT_NE(event(1).flow, 0U);
    EXPECT_EQ(event(0).layer, 3);
    EXPECT_EQ(event(1).bytes, 256_B);
}

TEST(MeasuredTrace, KernelsEndWithTheirLaps) {
    const Schedule schedule = parse(kTwoRanks);
    const Trace trace = measured_trace(schedule, by_hand(schedule), {});
    ASSERT_EQ(trace.kernels.size(), 4U);
    EXPECT_EQ(trace.labels[trace.kernels[0].label], "norm");
    EXPECT_EQ(trace.kernels[0].begin, ns(0));
    EXPECT_EQ(trace.kernels[0].end, ns(40));
    EXPECT_EQ(trace.labels[trace.kernels[1].label], "gemm");
    EXPECT_EQ(trace.kernels[1].count, 2U);
    EXPECT_EQ(trace.kernels[1].begin, ns(40));
    EXPECT_EQ(trace.kernels[1].end, ns(100));  // the last one ends with its op
}

TEST(MeasuredTrace, MemoryFollowsTheOps) {
    const Schedule schedule = parse(kTwoRanks);
    const Trace trace = measured_trace(schedule, by_hand(schedule), {});
    ASSERT_EQ(trace.pools.size(), 3U);
    EXPECT_EQ(trace.pools[0].arena, 256_B);
    EXPECT_EQ(trace.pools[1].arena, 512_B);
    EXPECT_EQ(trace.pools[1].peak_time, ns(105));
    EXPECT_EQ(trace.pools[2].arena, 256_B);
    EXPECT_EQ(trace.pools[1].capacity, 2_MiB);
}

TEST(MeasuredTrace, OfARealStep) {
    Provenance provenance;
    provenance.producer = "test";
    provenance.scenario = "pair";
    ToyRun toy(parse(kTwoRanks));
    for (int step = 0; step < 3; ++step) {
        toy.run.run_step();
        const Trace trace = measured_trace(toy.schedule, toy.run.times(), provenance);
        ASSERT_EQ(check_trace(trace), "");
        EXPECT_EQ(trace.provenance, provenance);
        EXPECT_LE(trace.step, toy.run.step_time());
        EXPECT_EQ(trace.kernels.size(), 4U);
        const std::vector<TraceEvent>& events = trace.events;
        for (const Op& op : toy.schedule.ops)
            for (const OpId after : op.after) EXPECT_GE(events[index(op.id)].begin, events[index(after)].end);
        EXPECT_EQ(events[2].begin, events[5].begin);
    }
}

}  // namespace
}  // namespace sluice
