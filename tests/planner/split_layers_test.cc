// Stages as light as can be with the embedding and the head counted: against every split of small models.
#include "planner/split_layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "models/kernel_cost.h"
#include "planner/lower.h"
#include "planner/partition_sequence.h"
#include "planner/step_estimate.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

std::vector<std::int64_t> counts(const std::vector<StagePlan>& plans) {
    std::vector<std::int64_t> result;
    for (const StagePlan& plan : plans) result.push_back(plan.layers);
    return result;
}

// Compute time of the busiest stage.
Seconds busiest(Scenario s, std::vector<std::int64_t> layers) {
    s.policy.stage_layers = std::move(layers);
    const std::vector<Subsequence> subs = partition_sequence(s);
    const StepEstimate estimate = estimate_step(fold_step(s, subs, split_layers(s, subs)), s);
    return *std::ranges::max_element(estimate.compute);
}

template <class Use>
void for_each_split(std::int64_t layers, std::int64_t stages, std::vector<std::int64_t>& split, const Use& use) {
    if (stages == 1) {
        split.push_back(layers);
        use(split);
        split.pop_back();
        return;
    }
    for (std::int64_t here = 1; here <= layers - (stages - 1); ++here) {
        split.push_back(here);
        for_each_split(layers - here, stages - 1, split, use);
        split.pop_back();
    }
}

TEST(SplitLayers, NoSplitIsLighter) {
    for (const std::int64_t pp : {1, 2, 3, 4})
        for (const std::int64_t layers : {4, 7, 9})
            for (const std::int64_t vocabulary : {64, 4096, 16384}) {
                Scenario s = small_scenario(1, pp, 2);
                s.model.layers = layers, s.model.vocabulary = vocabulary;
                s.calibration.kernel_gap = Seconds{0};  // else a stage's optimizer counts, too
                s.sequence = Tokens{2048};
                const std::vector<Subsequence> subs = partition_sequence(s);
                const Seconds chosen = busiest(s, counts(split_layers(s, subs)));
                std::vector<std::int64_t> split;
                for_each_split(layers, pp, split, [&](const std::vector<std::int64_t>& other) {
                    // the optimizer's share, which the split leaves out, is below 3% of a layer here
                    EXPECT_LE(chosen / busiest(s, other), 1.03)
                        << layers << " layers, " << pp << " stages, " << vocabulary;
                });
            }
}

TEST(SplitLayers, EvenWhereNothingIsLighter) {
    Scenario s = small_scenario(1, 4, 2);
    s.model.vocabulary = 64;
    const std::vector<Subsequence> subs = partition_sequence(s);
    s.model.layers = 8;
    EXPECT_EQ(counts(split_layers(s, subs)), (std::vector<std::int64_t>{2, 2, 2, 2}));
    s.model.layers = 10;
    EXPECT_EQ(counts(split_layers(s, subs)), (std::vector<std::int64_t>{3, 3, 2, 2}));
    EXPECT_EQ(split_note(s, {subs, split_layers(s, subs), {}}).rfind("stages of 3, 3, 2, 2 layers; ", 0), 0U);
    s.model.layers = 4;
    EXPECT_EQ(split_note(s, {subs, split_layers(s, subs), {}}), "");
}

TEST(SplitLayers, AHeavyHeadTakesLayersFromTheLastStage) {
    Scenario s = small_scenario(1, 4, 2);
    s.model.layers = 16, s.model.vocabulary = 32768, s.sequence = Tokens{1024};
    const std::vector<std::int64_t> split = counts(split_layers(s, partition_sequence(s)));
    EXPECT_LT(split.back(), 4);
    EXPECT_EQ(std::accumulate(split.begin(), split.end(), std::int64_t{0}), 16);
    const Lowered lowered = lower(s);
    ASSERT_TRUE(lowered.feasible());
    EXPECT_EQ(lowered.plan.notes.back().rfind("stages of ", 0), 0U);
}

}  // namespace
}  // namespace sluice
