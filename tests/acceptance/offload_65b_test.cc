// The offload rule on the paper's own example, 65B at 128K tokens in eight subsequences, with GPU memory that binds on
// every stage: 69 GiB keep everything, 56 GiB do not.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/acceptance/predict.h"

namespace sluice {
namespace {

Scenario with_memory(Bytes memory, Granularity granularity = Granularity::kStage) {
    Scenario s = shipped("sppo-gpt65b-128k-a100x64");
    s.cluster.gpu.memory = memory + s.cluster.gpu.reserved;
    s.policy.granularity = granularity;
    return s;
}

Seconds exposed(const StepSummary& summary) { return summary.mean.exposed_d2h + summary.mean.exposed_h2d; }

Bytes moved(const StagePlan& stage) {
    Bytes sum{};
    for (const Bytes x : stage.offloaded) sum += x;
    return sum;
}

std::vector<std::vector<Bytes>> amounts(const Plan& plan) {
    std::vector<std::vector<Bytes>> result;
    for (const StagePlan& stage : plan.stages) result.push_back(stage.offloaded);
    return result;
}

TEST(Offload65B, AmpleMemoryKeepsEverything) {
    const Lowered lowered = lower(shipped("sppo-gpt65b-128k-a100x64"));
    ASSERT_TRUE(lowered.feasible());
    for (const StagePlan& stage : lowered.plan.stages) EXPECT_EQ(moved(stage), 0_B);
}

TEST(Offload65B, AmountsAreAsEqualAsTheWindowsAllowAndHidden) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
        const Scenario s = with_memory(54_GiB, granularity);
        const Lowered lowered = lower(s);
        ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
        EXPECT_TRUE(verify(lowered.schedule).empty());
        EXPECT_TRUE(lowered.plan.notes.empty());
        for (const StagePlan& stage : lowered.plan.stages) {
            EXPECT_GT(moved(stage), 0_B);
            const Bytes level = *std::max_element(stage.offloaded.begin(), stage.offloaded.end());
            // those whose copies leave before memory is fullest: all but the last two
            for (std::size_t i = 0; i + 2 < stage.offloaded.size(); ++i) {
                const Bytes cap = std::min(stage.activation[i], stage.window[i]);
                EXPECT_LE(stage.offloaded[i], cap);
                // Layer by layer whole tensors are moved, of this and of the highest: each up to a row of hidden values per
                // token, a fourteenth of the layer's activations, more than was decided.
                const Bytes whole = granularity == Granularity::kLayer ? Bytes{stage.activation[i].value / 7} : 0_B;
                EXPECT_GE(stage.offloaded[i] + 64_KiB + whole, std::min(level, cap)) << i;
            }
        }
        const StepSummary summary = replay(s, lowered);
        EXPECT_LT(exposed(summary) / summary.step, 1e-4);
        const StepSummary ample = replay(s, lower(with_memory(75_GiB, granularity)));
        EXPECT_LT(summary.step / ample.step, 1.01);
    }
}

TEST(Offload65B, LoweringAnyAlphaNoLongerFits) {
    const Scenario s = with_memory(54_GiB);
    const Lowered lowered = lower(s);
    for (std::size_t stage = 0; stage < lowered.plan.stages.size(); ++stage)
        for (std::size_t i = 0; i < lowered.plan.stages[stage].offloaded.size(); ++i) {
            std::vector<std::vector<Bytes>> less = amounts(lowered.plan);
            if (less[stage][i].value == 0) continue;
            const Bytes hundredth{lowered.plan.stages[stage].activation[i].value / 100};
            less[stage][i] = std::max(0_B, less[stage][i] - hundredth);
            EXPECT_FALSE(lower_with(s, less).feasible()) << "stage " << stage << " subsequence " << i;
        }
}

// The same bytes by one ratio: the first subsequences exceed their windows. Replayed where memory does not decide.
TEST(Offload65B, ConstantRatioWithEqualBytesExposesMore) {
    const Lowered adaptive = lower(with_memory(54_GiB));
    const Scenario roomy = with_memory(75_GiB);
    std::vector<std::vector<Bytes>> ratio = amounts(adaptive.plan);
    for (std::size_t s = 0; s < ratio.size(); ++s) {
        const StagePlan& stage = adaptive.plan.stages[s];
        Bytes activation{};
        for (const Bytes a : stage.activation) activation += a;
        const double alpha = moved(stage) / activation;
        for (std::size_t i = 0; i < ratio[s].size(); ++i)
            ratio[s][i] = Bytes{static_cast<std::int64_t>(alpha * static_cast<double>(stage.activation[i].value))};
    }
    const Lowered constant = lower_with(roomy, ratio), same = lower_with(roomy, amounts(adaptive.plan));
    ASSERT_TRUE(constant.feasible() && same.feasible());
    const StepSummary by_ratio = replay(roomy, constant), by_rule = replay(roomy, same);
    EXPECT_NEAR(by_ratio.offloaded / by_rule.offloaded, 1, 1e-6);
    EXPECT_GT(exposed(by_ratio), exposed(by_rule));
    EXPECT_GT(by_ratio.step, by_rule.step);
}

TEST(Offload65B, WindowsAreExceededOnlyWhenNothingElseFitsAndThatIsSaid) {
    const Lowered inside = lower(with_memory(50_GiB));
    ASSERT_TRUE(inside.feasible());
    EXPECT_TRUE(inside.plan.notes.empty());
    const Scenario tight = with_memory(48_GiB + 256_MiB);
    const Lowered beyond = lower(tight);
    ASSERT_TRUE(beyond.feasible()) << beyond.reasons.front();
    ASSERT_FALSE(beyond.plan.notes.empty());
    EXPECT_NE(beyond.plan.notes.front().find("exceed what hides behind compute"), std::string::npos);
    EXPECT_GT(exposed(replay(tight, beyond)).value, 0.01);
}

TEST(Offload65B, TooLittleMemorySaysWhichKindsExceedIt) {
    const Lowered lowered = lower(with_memory(40_GiB));
    ASSERT_EQ(lowered.reasons.size(), 8U);  // every stage
    EXPECT_EQ(lowered.reasons[7].rfind("ranks 56-63 (stage 7): ", 0), 0U) << lowered.reasons[7];
    for (const char* part : {"40.0 GiB usable", "optimizer 11.8 GiB", "dkv 10.0 GiB", "kv 5.00 GiB"})
        EXPECT_NE(lowered.reasons[7].find(part), std::string::npos) << lowered.reasons[7];
}

}  // namespace
}  // namespace sluice
