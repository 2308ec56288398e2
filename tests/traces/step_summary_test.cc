#include "traces/step_summary.h"

#include <gtest/gtest.h>

#include "example_trace.h"
#include "random_trace.h"
#include "trace_builder.h"

namespace sluice {
namespace {

// Times as derived in lane_time_test.cc.
TEST(StepSummary, OfTheExample) {
    const StepSummary s = summarize_step(example_trace());
    EXPECT_EQ(s.step, Seconds{10});
    EXPECT_EQ(s.ops, 13U);
    EXPECT_EQ(s.mean.rank, kNoRank);
    EXPECT_DOUBLE_EQ(s.mean.work.value, 3.75);         // 5, 2.5
    EXPECT_DOUBLE_EQ(s.mean.bubble.value, 1.75);       // 2, 1.5
    EXPECT_DOUBLE_EQ(s.mean.exposed_d2h.value, 1);     // 2, 0
    EXPECT_DOUBLE_EQ(s.mean.exposed_comm.value, 1.5);  // 1, 2
    EXPECT_DOUBLE_EQ(s.mean.total().value, 10);
    EXPECT_EQ(s.worst_d2h.rank, Rank{0});
    EXPECT_DOUBLE_EQ(s.worst_d2h.time.value, 2);
    EXPECT_EQ(s.worst_comm.rank, Rank{1});
    EXPECT_DOUBLE_EQ(s.worst_comm.time.value, 2);
    EXPECT_EQ(s.worst_h2d.rank, Rank{0});  // nobody waits: the lowest rank
    EXPECT_DOUBLE_EQ(s.worst_h2d.time.value, 0);
    EXPECT_DOUBLE_EQ(s.bubble.of_step, 0.375);
    EXPECT_EQ(s.offloaded, 2_MiB);
    EXPECT_EQ(s.reloaded, 2_MiB);
}

TEST(StepSummary, SaysWhenMemoryWasFullest) {
    const StepSummary s = summarize_step(example_trace());
    const PoolPeak* device = s.fullest_device();
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(device->owner, 0U);
    EXPECT_EQ(device->live, 3_MiB);
    EXPECT_EQ(device->arena, 8_GiB);
    EXPECT_EQ(device->op, OpId{0});
    EXPECT_EQ(device->kinds, (std::vector<std::pair<std::string, Bytes>>{{"weights", 1_MiB}, {"activation", 2_MiB}}));
    ASSERT_NE(s.fullest_host(), nullptr);
    EXPECT_EQ(s.fullest_host()->live, 2_MiB);

    EXPECT_EQ(summarize_step(Trace{}).fullest_device(), nullptr);
}

TEST(StepSummary, PicksTheLowestOwnerOfEquallyFullPools) {
    TraceBuilder t;
    for (const std::uint32_t rank : {3U, 1U, 2U}) t.live(t.pool(false, rank, 8_GiB), 0, rank == 3 ? 5 : 7);
    const StepSummary s = summarize_step(t.trace);
    EXPECT_EQ(s.fullest_device()->owner, 1U);
    EXPECT_EQ(s.fullest_device()->live, 7_B);  // from the samples: no kinds were recorded
    EXPECT_EQ(s.device_peaks.back().owner, 3U);
}

TEST(StepSummary, SortsTimesByWhatTheyWereSpentOn) {
    const StepSummary s = summarize_step(example_trace());
    ASSERT_EQ(s.kernels.size(), 2U);
    EXPECT_EQ(s.kernels[0].label, "gemm");
    EXPECT_DOUBLE_EQ(s.kernels[0].time.value, 2.5);
    EXPECT_EQ(s.kernels[0].count, 4U);
    EXPECT_EQ(s.kernels[1].label, "norm");
    EXPECT_DOUBLE_EQ(s.kernels[1].time.value, 0.5);

    ASSERT_EQ(s.phases.size(), 2U);
    EXPECT_EQ(s.phases[0].label, "forward");  // F0 2, F1 2 and rank 1's 1.5
    EXPECT_DOUBLE_EQ(s.phases[0].time.value, 5.5);
    EXPECT_DOUBLE_EQ(s.phases[1].time.value, 2);

    ASSERT_EQ(s.stages.size(), 3U);  // the last op of rank 0 has no stage
    EXPECT_EQ(s.stages[0].stage, -1);
    EXPECT_EQ(s.stages[1].stage, 0);
    EXPECT_DOUBLE_EQ(s.stages[1].busy.value, 4);
    EXPECT_DOUBLE_EQ(s.stages[2].busy.value, 2.5);
}

TEST(StepSummary, AveragesAStageOverItsRanks) {
    TraceBuilder t;
    t.lane(0, LaneRole::kCompute), t.lane(1, LaneRole::kCompute);
    t.event(t.op(0, 0, 2)).stage = 4;
    t.event(t.op(1, 0, 4)).stage = 4;
    const StepSummary s = summarize_step(t.trace);
    ASSERT_EQ(s.stages.size(), 1U);
    EXPECT_EQ(s.stages[0].ranks, 2U);
    EXPECT_DOUBLE_EQ(s.stages[0].busy.value, 3);
}

TEST(StepSummary, MeansSumToTheStep) {
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
        const Trace trace = random_trace(seed, {.ranks = 1 + seed % 5, .tasks = 60});
        EXPECT_NEAR(summarize_step(trace).mean.total().value, trace.step.value, 1e-9) << "seed " << seed;
    }
}

}  // namespace
}  // namespace sluice
