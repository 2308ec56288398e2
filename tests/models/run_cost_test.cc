#include "models/run_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

RunStep ten_seconds() {
    RunStep step;
    step.time = Seconds{10};
    step.tokens = Tokens{1'000'000};
    step.gpus = 16, step.nodes = 2;
    step.state = Bytes{200'000'000'000};
    step.pinned_per_node = Bytes{300'000'000'000};
    return step;
}

RunTerms round_terms() {
    RunTerms terms;
    terms.storage_rate = BytesPerSecond{1e9};
    terms.checkpoint_interval = Seconds{1000};
    terms.mtbf_per_gpu = Seconds{1.6e6};
    terms.restart = Seconds{300};
    terms.startup = Seconds{100};
    terms.pin_rate = BytesPerSecond{3e9};
    return terms;
}

// By hand: 10^9 tokens are 1000 steps, 10,000 s of work in ten intervals, nine checkpoints of 200 GB at 2 GB/s, 100 s
// each. Initialisation 100 + 300 GB / 3 GB/s + 100 = 300 s. One failure in 1.6e6 / 16 = 100,000 s costs (1000 + 100) /
// 2
// + 300 + 300 = 1150 s: 10,900 s become 10,900 / (1 - 0.0115).
TEST(RunCost, ByHand) {
    const RunCost cost = run_cost(Tokens{1'000'000'000}, ten_seconds(), round_terms());
    EXPECT_EQ(cost.steps, 1000);
    EXPECT_EQ(cost.work, Seconds{10000});
    EXPECT_EQ(cost.checkpoint, Seconds{100});
    EXPECT_EQ(cost.checkpoint_count, 9);
    EXPECT_EQ(cost.checkpoints, Seconds{900});
    EXPECT_EQ(cost.pinning, Seconds{100});
    EXPECT_EQ(cost.initialisation, Seconds{300});
    EXPECT_EQ(cost.mtbf, Seconds{100000});
    EXPECT_NEAR(cost.total.value, 300 + 10900 / (1 - 0.0115), 1e-6);
    EXPECT_NEAR(cost.failures.value, 10900 / (1 - 0.0115) - 10900, 1e-6);
    EXPECT_NEAR(cost.failure_count, 10900 / (1 - 0.0115) / 100000, 1e-12);
    EXPECT_NEAR(cost.gpu_hours, cost.total.value * 16 / 3600, 1e-9);
    EXPECT_NEAR(cost.best_interval.value, std::sqrt(2 * 100.0 * 100000.0), 1e-9);
}

TEST(RunCost, StepsAreWhole) {
    EXPECT_EQ(run_cost(Tokens{1}, ten_seconds(), round_terms()).steps, 1);
    EXPECT_EQ(run_cost(Tokens{1'000'000}, ten_seconds(), round_terms()).steps, 1);
    EXPECT_EQ(run_cost(Tokens{1'000'001}, ten_seconds(), round_terms()).steps, 2);
}

TEST(RunCost, AShortRunWritesNoCheckpointAndLosesAtMostItself) {
    const RunCost cost = run_cost(Tokens{1'000'000}, ten_seconds(), round_terms());
    EXPECT_EQ(cost.checkpoint_count, 0);
    const double lost = (10 + 100) / 2.0 + 300 + 300;
    EXPECT_NEAR(cost.total.value, 300 + 10 / (1 - lost / 100000), 1e-9);
}

TEST(RunCost, TheClustersPinTimeCounts) {
    RunStep step = ten_seconds();
    step.pin_time = Seconds{7};
    EXPECT_EQ(run_cost(Tokens{1}, step, round_terms()).initialisation, Seconds{207});
}

TEST(RunCost, FailuresMayEatAllTime) {
    RunTerms terms = round_terms();
    terms.mtbf_per_gpu = Seconds{16 * 1000.0};  // of the job: 1000 s, less than the 1150 s that a failure costs
    const RunCost cost = run_cost(Tokens{1'000'000'000}, ten_seconds(), terms);
    EXPECT_FALSE(cost.finishes);
    EXPECT_TRUE(std::isinf(cost.total.value));
}

// Young's interval is where the expected time is least, to first order.
TEST(RunCost, YoungsIntervalIsNearTheBest) {
    RunTerms terms = round_terms();
    const RunStep step = ten_seconds();
    const auto total = [&](Seconds interval) {
        terms.checkpoint_interval = interval;
        return run_cost(Tokens{100'000'000'000}, step, terms).total;
    };
    const Seconds young = run_cost(Tokens{1}, step, terms).best_interval;
    EXPECT_LT(total(young), total(young * 2.0));
    EXPECT_LT(total(young), total(young / 2.0));
}

// 14 bytes a parameter: bf16 weights, fp32 master weights and two moments.
TEST(RunCost, ACheckpointHoldsWeightsAndOptimizer) {
    const Scenario s = small_scenario();
    const std::int64_t layer = 4 * 256 * 256 + 2 * 256 * 1024 + (3 * 256 + 1024) + 2 * 256 + 4 * 256;
    const std::int64_t parameters = 4 * layer + 1024 * 256 + 2 * 256;
    EXPECT_EQ(checkpoint_bytes(s).value, 14 * parameters);
}

}  // namespace
}  // namespace sluice
