// The closed form that the placement rule asks against the schedule that lowering makes.
#include "planner/live_model.h"

#include <gtest/gtest.h>

#include <random>

#include "planner/offload_amounts.h"
#include "planner/partition_sequence.h"
#include "schedule/place_memory.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

TEST(LiveModel, PredictsTheLoweredSchedulesLivePeak) {
    std::mt19937 random(3);
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
        for (const std::int64_t batch : {1, 2}) {
            Scenario s = small_scenario(2, 2, 5);
            s.policy.granularity = granularity;
            s.batch = batch;
            const std::vector<Subsequence> subs = partition_sequence(s);
            std::vector<StagePlan> plans = split_layers(s.model.layers, s.policy.pp);
            const FoldedStep step = fold_step(s, subs, plans);
            const OffloadContext context = offload_context(s, step);
            fill_windows(context, plans);
            for (int round = 0; round < 10; ++round) {
                for (StagePlan& plan : plans)
                    for (std::size_t i = 0; i < plan.offloaded.size(); ++i)
                        plan.offloaded[i] = Bytes{static_cast<std::int64_t>(
                            random() % static_cast<std::uint64_t>(plan.activation[i].value + 1))};
                const std::vector<Bytes> moved = moved_by_unit(context, plans);
                const OffloadedStep offloaded = offload_units(step, moved);
                const std::vector<LivePeak> peaks = live_peaks(offloaded.step.schedule, Space::kDevice);
                for (std::size_t stage = 0; stage < plans.size(); ++stage) {
                    EXPECT_EQ(context.models[stage].peak(plans[stage].offloaded), peaks[stage].bytes);
                    Bytes sum{}, expected{};
                    for (const std::size_t u : context.models[stage].units()) sum += moved[u];
                    for (const Bytes x : plans[stage].offloaded) expected += x * batch;
                    EXPECT_EQ(sum, expected);
                }
            }
        }
}

}  // namespace
}  // namespace sluice
