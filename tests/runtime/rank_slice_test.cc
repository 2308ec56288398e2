// One rank of a schedule, cut out and run alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/decoder/cpu_engine.h"
#include "runtime/local_ranks.h"
#include "runtime/measured_trace.h"
#include "schedule/flops.h"
#include "schedule/slice_rank.h"
#include "schedule/verify.h"
#include "tests/runtime/training_case.h"
#include "traces/find_event.h"
#include "traces/slice_trace.h"

namespace sluice {
namespace {

struct Cut {
    std::int64_t n, sp, pp, dp;
    SequenceParallelKind kind = SequenceParallelKind::kMegatron;
    ZeroStage zero = ZeroStage::kNone;
};
const std::vector<Cut> kCuts = {{3, 1, 2, 1},
                                {4, 2, 4, 1},
                                {3, 4, 2, 2},
                                {3, 2, 2, 2, SequenceParallelKind::kUlysses},
                                {3, 2, 2, 2, SequenceParallelKind::kMegatron, ZeroStage::kOptimizer},
                                {3, 2, 1, 4, SequenceParallelKind::kUlysses, ZeroStage::kOptimizer}};

Scenario scenario_of(const Cut& c) {
    Scenario s = training_scenario(tiny_architecture(Style::kGpt2), c.sp * c.n * 8, c.n, c.sp, c.pp, c.dp);
    s.policy.sp_kind = c.kind, s.policy.zero = c.zero;
    s.policy.placement = OffloadRatio{0.5};
    return s;
}

std::vector<const Op*> ops_of(const Schedule& schedule, Rank rank) {
    std::vector<const Op*> ops;
    for (const Op& op : schedule.ops)
        if (op.rank == rank) ops.push_back(&op);
    return ops;
}

TEST(RankSlice, IsAScheduleOfItsOwnWithAllThatTheRankDoes) {
    for (const Cut& cut : kCuts) {
        const Schedule whole = lowered_schedule(scenario_of(cut));
        for (const Rank rank : all_ranks(whole)) {
            SCOPED_TRACE(testing::Message() << "sp " << cut.sp << " pp " << cut.pp << ", rank " << index(rank));
            const RankSlice slice = slice_rank(whole, rank);
            const Diagnostics problems = verify(slice.schedule);
            EXPECT_TRUE(problems.empty()) << problems.front().message;
            const auto expected = ops_of(whole, rank), got = ops_of(slice.schedule, rank);
            ASSERT_EQ(got.size(), expected.size());
            for (std::size_t k = 0; k < got.size(); ++k) {
                EXPECT_EQ(slice.op_of[index(got[k]->id)], expected[k]->id);
                EXPECT_EQ(got[k]->lane, expected[k]->lane);
                EXPECT_EQ(got[k]->tag, expected[k]->tag);
                EXPECT_EQ(got[k]->after.size(), expected[k]->after.size());
                EXPECT_EQ(got[k]->accesses.size(), expected[k]->accesses.size());
            }
            for (const Space space : {Space::kDevice, Space::kHost})
                EXPECT_EQ(arena_bytes(slice.schedule, rank, space), arena_bytes(whole, rank, space));
            EXPECT_LT(slice.schedule.ops.size(), whole.ops.size());
        }
    }
}

TEST(RankSlice, PartnersHaveTheOtherEndsOfMessagesAlone) {
    const RankSlice slice = slice_rank(lowered_schedule(scenario_of({4, 2, 4, 1})), id_at<Rank>(3));
    for (const Op& op : slice.schedule.ops) {
        if (op.rank == slice.rank) continue;
        EXPECT_FALSE(std::holds_alternative<Compute>(op.work) || std::holds_alternative<Copy>(op.work));
        EXPECT_TRUE(op.after.empty() && op.accesses.empty());
    }
    for (const Group& group : slice.schedule.groups)
        EXPECT_EQ(std::count(group.members.begin(), group.members.end(), slice.rank), 1);
}

struct SliceRun {
    RankSlice slice;
    Session session;
    StepReport report;

    SliceRun(const Scenario& s, const Schedule& whole, Rank rank, const StandIns& stand_ins = {})
        : slice(slice_rank(whole, rank)), session(s, slice.schedule, cpu_engine({}, stand_ins), {{rank}, {}}) {
        session.initialise(5);
        StepSettings settings;
        settings.learning_rate = 1e-3F;
        for (std::uint32_t k = 0; k < 2; ++k) report = session.step(random_tokens(s, k), settings);
    }
    Trace trace() { return measured_slice_trace(slice.schedule, slice.rank, session.engine().times(), {}); }
};

TEST(RankSlice, EveryRankRunsAloneAndKnowsNoLossOfTheRun) {
    for (const Cut& cut : kCuts) {
        const Scenario s = scenario_of(cut);
        const Schedule whole = lowered_schedule(s);
        for (const Rank rank : all_ranks(whole)) {
            SCOPED_TRACE(testing::Message() << "sp " << cut.sp << " pp " << cut.pp << ", rank " << index(rank));
            SliceRun run(s, whole, rank);
            EXPECT_FALSE(run.report.loss.has_value());
            EXPECT_TRUE(std::isfinite(run.report.gradient_norm));
            // With Ulysses every shard has all weights, and the first one's gradients count.
            const bool counts =
                cut.kind == SequenceParallelKind::kMegatron || run.session.shape().ranks[index(rank)].shard == 0;
            EXPECT_EQ(run.report.gradient_norm > 0, counts);
            const Trace trace = run.trace();
            EXPECT_EQ(trace.events.size(), run.slice.schedule.ops.size());
            ASSERT_EQ(trace.pools.size(), 2U) << "its device and its node";
            EXPECT_EQ(trace.pools.front().owner, index(rank));
            EXPECT_EQ(trace.pools.front().arena, arena_bytes(whole, rank, Space::kDevice));
        }
    }
}

// Whoever reads a checkpoint asks what its ranks hold, which may be no more than the copy of a second replica.
TEST(RankSlice, KnowsTheNamesOfWhatItHolds) {
    for (const ZeroStage zero : {ZeroStage::kNone, ZeroStage::kOptimizer}) {
        const Scenario s = scenario_of({3, 1, 1, 2, SequenceParallelKind::kMegatron, zero});
        Session whole(s, lowered_schedule(s), cpu_engine());
        whole.initialise(1);
        const std::vector<WholeParameter> all = whole.parameters();
        const SliceRun second(s, whole.schedule(), id_at<Rank>(1));
        const std::vector<WholeParameter> blank = second.session.blank_parameters();
        ASSERT_EQ(blank.size(), all.size());
        for (std::size_t i = 0; i < all.size(); ++i) {
            EXPECT_EQ(blank[i].name, all[i].name);
            EXPECT_EQ(blank[i].shape, all[i].shape);
            EXPECT_EQ(blank[i].second_moment, std::vector<float>(all[i].weights.size()));
        }
        EXPECT_EQ(second.session.parameters().empty(), zero == ZeroStage::kNone) << "the first replica's are taken";
    }
}

TEST(RankSlice, IsRefusedWithoutStandIns) {
    const Scenario s = scenario_of(kCuts.front());
    const RankSlice slice = slice_rank(lowered_schedule(s), Rank{});
    EXPECT_THROW(Session(s, slice.schedule, cpu_engine(), {{slice.rank}, {}}), InputError);
}

TEST(RankSlice, TraceOfTheWholeCutToTheSliceHasTheSameTimes) {
    const Scenario s = scenario_of({4, 2, 2, 1});
    Session session(s, lowered_schedule(s), cpu_engine());
    session.initialise(1);
    session.step(random_tokens(s, 0), {});
    const Trace whole = measured_trace(session.schedule(), session.engine().times(), {});
    const RankSlice slice = slice_rank(session.schedule(), id_at<Rank>(2));
    const Trace cut = slice_trace(whole, slice);
    EXPECT_EQ(cut.step, whole.step);
    ASSERT_EQ(cut.events.size(), slice.schedule.ops.size());
    std::size_t kernels = 0;
    for (const TraceEvent& event : cut.events) {
        const TraceEvent* from = find_event(whole, slice.op_of[index(event.op)]);
        EXPECT_EQ(event.begin, from->begin);
        EXPECT_EQ(event.end, from->end);
        EXPECT_EQ(event.bytes, from->bytes);
    }
    for (const KernelSpan& span : cut.kernels) {
        EXPECT_LE(span.begin, span.end);
        kernels += span.end > span.begin ? 1 : 0;
    }
    EXPECT_GT(kernels, 0U);
    ASSERT_EQ(cut.pools.size(), 2U);
    EXPECT_EQ(cut.pools.front().arena, arena_bytes(session.schedule(), slice.rank, Space::kDevice));
}

// With the times of a prediction messages last at least as long, and what comes from another stage is not early.
TEST(RankSlice, StandInsTakeThePredictedTime) {
    const Scenario s = scenario_of({3, 2, 2, 1});
    const Schedule whole = lowered_schedule(s);
    const Rank rank = id_at<Rank>(2);  // of the second stage
    Trace predicted = SliceRun(s, whole, rank).trace();
    constexpr double kSlow = 3e-3;
    double at = 0;
    for (TraceEvent& event : predicted.events) {
        at += 1e-3;
        event.begin = Seconds{at}, event.end = Seconds{at + kSlow};
    }
    const RankSlice slice = slice_rank(whole, rank);
    SliceRun run(s, whole, rank, stand_ins_from(slice.schedule, predicted));
    const Trace trace = run.trace();
    for (const Op& op : slice.schedule.ops) {
        if (op.rank != rank || std::holds_alternative<Compute>(op.work) || std::holds_alternative<Copy>(op.work))
            continue;
        const TraceEvent &event = *find_event(trace, op.id), &expected = *find_event(predicted, op.id);
        EXPECT_GE((event.end - event.begin).value, kSlow * 0.999) << "op " << index(op.id);
        if (std::holds_alternative<Receive>(op.work)) {
            EXPECT_GE(event.end.value, expected.end.value * 0.99);
        }
    }
}

}  // namespace
}  // namespace sluice
