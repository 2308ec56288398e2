// What an adaptation decides, by steps that are made up: no clock is asked.
#include "tools/sluice/adapt_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/support/small_scenario.h"
#include "tools/sluice/predicted_trace.h"
#include "traces/step_summary.h"

namespace sluice {
namespace {

constexpr double kFast = 0.5e9, kSlow = 0.25e9;  // copies, bytes per second

// At kFast all that has to go hides behind compute; at kSlow some of it has to be recomputed instead.
Scenario scenario_at(double copies) {
    Scenario s = small_scenario(1, 1, 16);
    s.policy.granularity = Granularity::kLayer;
    s.policy.placement = ThreeWay{};
    s.cluster.gpu.memory = 240_MiB;
    return with_rates(s, {BytesPerSecond{copies}, BytesPerSecond{copies}, 1});
}

PlannedRun planned(const Scenario& s) {
    std::vector<std::string> refused;
    std::optional<PlannedRun> run = plan_run(s, refused);
    if (!run) throw std::runtime_error(refused.front());
    return std::move(*run);
}

std::int64_t recomputed(const PlannedRun& run) {
    std::int64_t sum = 0;
    for (const StagePlan& stage : run.plan.stages)
        for (const std::int64_t r : stage.recomputed) sum += r;
    return sum;
}

double predicted_exposure(const PlannedRun& run) {
    const StepSummary summary = summarize_step(predicted_trace(run));
    double worst = 0;
    for (const LaneTime& lane : summary.lanes)
        worst = std::max(worst, (lane.exposed_d2h + lane.exposed_h2d) / summary.step);
    return worst;
}

StepFacts facts(std::int64_t step, double exposed, double copies, double compute = 1, std::int64_t cores = 2) {
    return {step, exposed, {BytesPerSecond{copies}, BytesPerSecond{copies}, compute}, cores};
}

bool silent(const Adaptation::Decision& d) { return !d.plan && d.reason.empty() && d.advice.empty(); }

TEST(Adaptation, CopiesAtHalfTheRateAreReplannedAndHideAgain) {
    const PlannedRun before = planned(scenario_at(kFast));
    ASSERT_EQ(recomputed(before), 0);
    EXPECT_EQ(predicted_exposure(before), 0);
    PlannedRun throttled = planned(scenario_at(kFast));
    throttled.scenario = scenario_at(kSlow);
    const double exposed = predicted_exposure(throttled);
    ASSERT_GT(exposed, kExposedLimit) << "the old placement does not hide at half the rate";

    Adaptation adaptation(3, before.scenario);
    for (std::int64_t step = 1; step <= 5; ++step)
        EXPECT_TRUE(silent(adaptation.decide(before, facts(step, 0, kFast)))) << step;
    EXPECT_FALSE(adaptation.decide(before, facts(6, exposed, kSlow)).plan);
    EXPECT_FALSE(adaptation.decide(before, facts(7, exposed, kSlow)).plan);
    const Adaptation::Decision decision = adaptation.decide(before, facts(8, exposed, kSlow));
    ASSERT_TRUE(decision.plan) << "three steps after the change, five at most";
    EXPECT_GT(recomputed(*decision.plan), 0);
    EXPECT_LT(predicted_exposure(*decision.plan), kExposedLimit);
    EXPECT_NE(decision.reason.find("after step 8: exposed copies"), std::string::npos) << decision.reason;
    EXPECT_NE(decision.reason.find("copies out 250 MB/s, in 250 MB/s"), std::string::npos) << decision.reason;
    EXPECT_NE(decision.reason.find("recomputed layers 0 -> "), std::string::npos) << decision.reason;
    // The new placement hides: nothing more to do.
    const PlannedRun after = *decision.plan;
    for (std::int64_t step = 9; step <= 20; ++step)
        EXPECT_FALSE(adaptation.decide(after, facts(step, 0.01, kSlow)).plan) << step;
}

TEST(Adaptation, TimeLeftForCopiesIsUsed) {
    const PlannedRun before = planned(scenario_at(kSlow));
    ASSERT_GT(recomputed(before), 0);
    Adaptation adaptation(2, before.scenario);
    EXPECT_FALSE(adaptation.decide(before, facts(1, 0, kFast)).plan) << "the first step counts nowhere";
    EXPECT_FALSE(adaptation.decide(before, facts(2, 0, kFast)).plan);
    const Adaptation::Decision decision = adaptation.decide(before, facts(3, 0, kFast));
    ASSERT_TRUE(decision.plan);
    EXPECT_EQ(recomputed(*decision.plan), 0);
    EXPECT_NE(decision.reason.find("time left for copies"), std::string::npos) << decision.reason;
}

TEST(Adaptation, StepsAreCountedInARow) {
    const PlannedRun before = planned(scenario_at(kFast));
    Adaptation adaptation(3, before.scenario);
    for (std::int64_t step = 1; step <= 12; ++step) {
        const double exposed = step % 3 == 0 ? 0.01 : 0.2;
        EXPECT_FALSE(adaptation.decide(before, facts(step, exposed, kFast * 0.7)).plan) << step;
    }
}

// What was planned by measured rates is not planned again by the same ones, however often copies are late.
TEST(Adaptation, NoPlanComesOfThePlanThatRuns) {
    const PlannedRun before = planned(scenario_at(kFast));
    Adaptation adaptation(2, before.scenario);
    std::vector<std::int64_t> advised;
    for (std::int64_t step = 1; step <= 200; ++step) {
        const Adaptation::Decision decision = adaptation.decide(before, facts(step, 0.05, kFast));
        EXPECT_FALSE(decision.plan);
        for (const std::string& advice : decision.advice) {
            advised.push_back(step);
            EXPECT_TRUE(advice.starts_with("exposed copies 5.0% of the step on one rank, and no other placement"))
                << advice;
            EXPECT_NE(advice.find("run sluice plan"), std::string::npos) << advice;
        }
    }
    EXPECT_EQ(advised, (std::vector<std::int64_t>{3})) << "said once";
}

TEST(Adaptation, OtherRatesAskForAnotherPlanOnce) {
    const PlannedRun run = planned(scenario_at(kFast));
    Adaptation adaptation(2, run.scenario);
    const auto advice = [&](std::int64_t step, double copies, double compute) {
        return adaptation.decide(run, facts(step, 0, copies, compute)).advice;
    };
    EXPECT_TRUE(advice(1, kFast, 1).empty());
    EXPECT_TRUE(advice(2, kFast * 1.4, 0.7).empty()) << "less than the limit";
    EXPECT_TRUE(advice(3, kFast / 1.4, 1.4).empty());
    EXPECT_TRUE(advice(4, kFast, 1).empty());
    advice(5, kSlow, 1);
    const std::vector<std::string> slower = advice(6, kSlow, 1);
    ASSERT_EQ(slower.size(), 1U);
    EXPECT_EQ(
        slower[0],
        "rates are others than planned for, by more than 1.5 times, for 2 steps: copies out 250 MB/s, planned 500 "
        "MB/s; copies in 250 MB/s, planned 500 MB/s; sluice plan with these rates (cluster: pcie; calibration: "
        "sluice fit) may choose another n, pp, sp or partition");
    for (std::int64_t step = 7; step <= 20; ++step) EXPECT_TRUE(advice(step, kSlow, step < 12 ? 1 : 2).empty()) << step;
    EXPECT_TRUE(advice(21, kSlow, 2).empty()) << "quiet for a while";
    const std::vector<std::string> compute = advice(22, kSlow, 2);
    ASSERT_EQ(compute.size(), 1U);
    EXPECT_NE(compute[0].find("compute takes 2.00 times the calibration's time, planned 1.00;"), std::string::npos)
        << compute[0];
    EXPECT_EQ(compute[0].find("copies"), std::string::npos);
    for (std::int64_t step = 23; step <= 80; ++step)
        EXPECT_TRUE(advice(step, 4 * kFast, 2).empty()) << "nothing is recomputed that faster copies would spare";
}

TEST(Adaptation, OtherCoresAskForAnotherPlan) {
    const PlannedRun run = planned(scenario_at(kFast));
    Adaptation adaptation(3, run.scenario);
    EXPECT_TRUE(silent(adaptation.decide(run, facts(1, 0, kFast, 1, 8))));
    const std::vector<std::string> advice = adaptation.decide(run, facts(2, 0, kFast, 1, 4)).advice;
    ASSERT_EQ(advice.size(), 1U);
    EXPECT_TRUE(advice[0].starts_with("4 cores instead of 8: sluice plan")) << advice[0];
    EXPECT_TRUE(silent(adaptation.decide(run, facts(3, 0, kFast, 1, 4))));
    EXPECT_GE(usable_cores(), 1);
}

// ---- Rates

// A predicted trace shows the rates that it was predicted with.
TEST(StepRates, OfAPredictedTraceAreThoseItWasMadeWith) {
    for (const std::int64_t pp : {1, 2}) {
        Scenario s = small_scenario(1, pp, 8);
        s.policy.granularity = Granularity::kLayer;
        s.policy.placement = OffloadRatio{0.3};
        const PlannedRun run = planned(s);
        PlannedRun slower = planned(s);
        slower.scenario = with_rates(s, {BytesPerSecond{0.7e9}, BytesPerSecond{0.4e9}, 1.3});
        const StepRates rates = step_rates(run.scenario, run.schedule, predicted_trace(slower));
        EXPECT_NEAR(rates.out.value, 0.7e9, 0.7e7);
        EXPECT_NEAR(rates.in.value, 0.4e9, 0.4e7);
        EXPECT_NEAR(rates.compute, 1.3, 0.001);
    }
}

TEST(StepRates, WithoutCopiesAreNotKnownAndChangeNothing) {
    Scenario s = small_scenario(1, 1, 4);
    s.policy.placement = KeepAll{};
    s.policy.granularity = Granularity::kLayer;
    const PlannedRun run = planned(s);
    const StepRates rates = step_rates(run.scenario, run.schedule, predicted_trace(run));
    EXPECT_EQ(rates.out.value, 0);
    EXPECT_EQ(rates.in.value, 0);
    const Scenario same = with_rates(run.scenario, rates);
    EXPECT_EQ(same.cluster.pcie.d2h, run.scenario.cluster.pcie.d2h);
    EXPECT_EQ(same.cluster.pcie.h2d, run.scenario.cluster.pcie.h2d);
}

TEST(StepRates, OneDisturbedStepDoesNotCount) {
    const StepRates steps[] = {{BytesPerSecond{2e9}, BytesPerSecond{3e9}, 1.1},
                               {BytesPerSecond{1e6}, BytesPerSecond{}, 17},
                               {BytesPerSecond{2.1e9}, BytesPerSecond{3.1e9}, 1.0}};
    const StepRates median = median_rates(steps);
    EXPECT_EQ(median.out.value, 2e9);
    EXPECT_EQ(median.in.value, 3.1e9);
    EXPECT_EQ(median.compute, 1.1);
}

}  // namespace
}  // namespace sluice
