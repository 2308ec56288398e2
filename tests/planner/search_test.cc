#include "planner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/lower.h"
#include "planner/step_estimate.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

Scenario open_scenario() {
    Scenario s = small_scenario(1, 1, 1);
    s.cluster.gpus_per_node = 8;
    s.cluster.gpu.memory = 4_GiB;
    s.sequence = Tokens{32768};
    s.policy.automatic = {true, true, true, true, true};
    return s;
}

TEST(Search, EveryCandidateHasAVerdictAndAReason) {
    const std::vector<Candidate> candidates = search(open_scenario());
    std::size_t finalists = 0;
    for (const Candidate& c : candidates) {
        EXPECT_FALSE(c.reason.empty()) << c.label();
        EXPECT_EQ(c.scenario.ranks(), 8);
        EXPECT_FALSE(c.scenario.policy.automatic.any());
        finalists += c.verdict == Verdict::kFinalist ? 1 : 0;
        EXPECT_TRUE(c.verdict != Verdict::kFinalist || c.estimate >= c.bound) << c.label();
    }
    EXPECT_EQ(finalists, SearchOptions{}.finalists);
    EXPECT_EQ(candidates.front().verdict, Verdict::kFinalist);
    // eight stages are too many for four layers
    EXPECT_TRUE(std::any_of(candidates.begin(), candidates.end(),
                            [](const Candidate& c) { return c.reason == "8 stages for 4 layers"; }));
}

// The bound prunes nothing that would have won: against placing every candidate.
TEST(Search, FindsTheBestEstimate) {
    for (const Bytes memory : {4_GiB, 220_MiB}) {
        Scenario s = open_scenario();
        s.cluster.gpu.memory = memory;
        SearchOptions all, three;
        all.finalists = 1000, three.finalists = 3;
        const std::vector<Candidate> everything = search(s, all), pruned = search(s, three);
        ASSERT_EQ(everything.size(), pruned.size());
        for (std::size_t k = 0; k < 3 && everything[k].verdict == Verdict::kFinalist; ++k) {
            EXPECT_EQ(pruned[k].label(), everything[k].label());
            EXPECT_EQ(pruned[k].estimate, everything[k].estimate);
        }
    }
}

// An open placement brings the recomputing variant of every finalist that can be had, an open order both orders of a
// single stage; neither makes the best slower.
TEST(Search, OpenPlacementAndOrder) {
    Scenario s = open_scenario();
    s.cluster.gpu.memory = 260_MiB;
    const std::vector<Candidate> fixed = search(s);
    s.policy.placement = ThreeWay{};
    s.policy.automatic.placement = s.policy.automatic.order = true;
    const std::vector<Candidate> open = search(s);
    ASSERT_EQ(fixed.front().verdict, Verdict::kFinalist);
    ASSERT_EQ(open.front().verdict, Verdict::kFinalist);
    EXPECT_LE(open.front().estimate, fixed.front().estimate);
    std::size_t recomputing = 0, by_layer = 0;
    for (const Candidate& c : open) {
        EXPECT_FALSE(c.reason.empty()) << c.label();
        recomputing += std::holds_alternative<RecomputeAll>(c.scenario.policy.placement);
        if (c.scenario.policy.order != TraversalOrder::kLayerMajor) continue;
        ++by_layer;
        EXPECT_EQ(c.scenario.policy.pp, 1);
        EXPECT_EQ(c.scenario.policy.granularity, Granularity::kLayer);
        EXPECT_NE(c.label().find(", order layer"), std::string::npos);
    }
    EXPECT_GT(recomputing, 0U);
    EXPECT_GT(by_layer, 0U);
}

// With replicas and ZeRO open, too: the best three of all placed ones, wherever memory binds.
TEST(Search, FindsTheBestReplicas) {
    Scenario s = open_scenario();
    s.sequence = Tokens{8192};
    s.batch = 4;
    s.policy.automatic.dp = s.policy.automatic.zero = true;
    for (const Bytes memory : {4_GiB, 130_MiB}) {
        s.cluster.gpu.memory = memory;
        SearchOptions all, three;
        all.finalists = 1000, three.finalists = 3;
        const std::vector<Candidate> everything = search(s, all), pruned = search(s, three);
        ASSERT_EQ(everything.size(), pruned.size());
        std::set<std::int64_t> replicas;
        std::set<ZeroStage> stages;
        for (const Candidate& c : everything) {
            EXPECT_EQ(c.scenario.ranks(), 8);
            EXPECT_TRUE(c.scenario.policy.dp > 1 || c.scenario.policy.zero == ZeroStage::kNone);
            replicas.insert(c.scenario.policy.dp), stages.insert(c.scenario.policy.zero);
        }
        EXPECT_EQ(replicas, (std::set<std::int64_t>{1, 2, 4}));
        EXPECT_EQ(stages.size(), 4U);
        for (std::size_t k = 0; k < 3 && everything[k].verdict == Verdict::kFinalist; ++k) {
            EXPECT_EQ(pruned[k].label(), everything[k].label());
            EXPECT_EQ(pruned[k].estimate, everything[k].estimate);
            EXPECT_EQ(plan_step(pruned[k].scenario).estimate, pruned[k].estimate);
        }
    }
}

TEST(Search, SaysWhyReplicasCannotBeFed) {
    Scenario s = open_scenario();
    s.policy.sp = 2, s.policy.pp = 1, s.policy.n = 4;
    s.policy.automatic = {};
    s.policy.automatic.dp = true;
    s.policy.partition.alignment = Tokens{2};
    s.batch = 6;
    const std::vector<Candidate> candidates = search(s);
    ASSERT_EQ(candidates.size(), 1U);
    EXPECT_EQ(candidates[0].label(), "sp 2 x pp 1 x dp 4, n 4, partition flops");
    EXPECT_EQ(candidates[0].verdict, Verdict::kImpossible);
    EXPECT_EQ(candidates[0].reason, "dp 4 does not divide the batch of 6");
}

TEST(Search, KeepsWhatIsFixed) {
    Scenario s = open_scenario();
    s.policy.sp = 4;
    s.policy.n = 6;
    s.policy.automatic = {false, true, false, false, false};
    s.policy.partition.alignment = Tokens{4};
    const std::vector<Candidate> candidates = search(s);
    ASSERT_EQ(candidates.size(), 1U);
    EXPECT_EQ(candidates[0].label(), "sp 4 x pp 2, n 6, partition flops");
}

TEST(Search, NothingFitsIsSaidOfEveryCandidate) {
    Scenario s = open_scenario();
    s.cluster.gpu.memory = 8_MiB;
    const std::vector<Candidate> candidates = search(s);
    for (const Candidate& c : candidates) {
        EXPECT_NE(c.verdict, Verdict::kFinalist);
        EXPECT_EQ(c.verdict == Verdict::kInfeasible, c.reason.find("of GPU memory needed") != std::string::npos);
    }
    // and the longer and shorter subsequences were tried, too
    EXPECT_TRUE(std::any_of(candidates.begin(), candidates.end(),
                            [](const Candidate& c) { return c.scenario.policy.n > 32768 / 2048; }));
}

TEST(Search, IsDeterministic) {
    const std::vector<Candidate> a = search(open_scenario()), b = search(open_scenario());
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) EXPECT_EQ(a[k].label() + a[k].reason, b[k].label() + b[k].reason);
}

// Whoever places what first.
TEST(Search, WorkersDoNotChangeTheResult) {
    Scenario s = open_scenario();
    s.batch = 2;
    s.sequence = Tokens{8192};
    s.policy.automatic.dp = s.policy.automatic.zero = true;
    for (const Bytes memory : {4_GiB, 130_MiB}) {
        s.cluster.gpu.memory = memory;
        SearchOptions options;
        options.workers = 1;
        const std::vector<Candidate> alone = search(s, options);
        for (const std::size_t workers : {3}) {
            options.workers = workers;
            double reported = 0;
            options.progress = [&](std::string_view, double fraction) {
                EXPECT_LE(fraction, 1);
                reported = std::max(reported, fraction);
            };
            const std::vector<Candidate> together = search(s, options);
            EXPECT_GT(reported, 0);
            ASSERT_EQ(alone.size(), together.size());
            for (std::size_t k = 0; k < alone.size(); ++k) {
                EXPECT_EQ(alone[k].label() + ": " + alone[k].reason, together[k].label() + ": " + together[k].reason);
                EXPECT_EQ(alone[k].verdict, together[k].verdict);
                EXPECT_EQ(alone[k].bound, together[k].bound);
                EXPECT_EQ(alone[k].estimate, together[k].estimate);
            }
        }
    }
}

// Four stages of one layer, eight equal subsequences, attention too fast to matter: every stage works eight times, and
// the three others pass by once forward and once with data gradients backward (weight gradients hold nobody up).
TEST(StepEstimate, IsThePipelinesLongestPath) {
    Scenario s = small_scenario(1, 4, 8);
    s.policy.partition.kind = PartitionKind::kEqual;
    s.calibration.attention = {{1, 1, FlopsPerSecond{1e18}, FlopsPerSecond{1e18}}};
    s.calibration.pointwise = BytesPerSecond{1e18};
    s.cluster.nvlink = {BytesPerSecond{1e15}, Seconds{0}};
    s.calibration.collective_step = Seconds{0};
    s.calibration.kernel_gap = Seconds{0};
    s.model.vocabulary = 8;  // no head to unbalance the last stage
    const PlannedStep step = plan_step(s);
    const StepEstimate estimate = estimate_step(step.folded, s);
    EXPECT_EQ(estimate.step, step.estimate);
    Seconds forward{}, data{};
    for (const Op& op : step.folded.schedule.ops) {
        if (op.rank != Rank{1} || op.lane.kind != LaneKind::kCompute || op.tag.subsequence != 3) continue;
        if (op.tag.phase == Phase::kForward) forward += op_time(op, step.folded, s);
        if (op.tag.phase == Phase::kBackward && data == Seconds{}) data = op_time(op, step.folded, s);
    }
    const Seconds expected = estimate.compute[1] + (forward + data) * 3.0;
    EXPECT_NEAR(estimate.step / expected, 1, 0.005);
}

}  // namespace
}  // namespace sluice
