// The closed form that the placement rule asks against the schedule that lowering makes.
#include "planner/live_model.h"

#include <gtest/gtest.h>

#include <random>

#include "schedule/place_memory.h"
#include "tests/support/small_scenario.h"
#include "tests/support/undecided_step.h"

namespace sluice {
namespace {

TEST(LiveModel, PredictsTheLoweredSchedulesLivePeak) {
    std::mt19937 random(3);
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
        for (const std::int64_t batch : {1, 2}) {
            Scenario s = small_scenario(2, 2, 5);
            s.policy.granularity = granularity;
            s.batch = batch;
            UndecidedStep undecided(s);
            auto& [subs, plans, step, context] = undecided;
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

// The same with layers recomputed: random r, and x of what is left.
TEST(LiveModel, PredictsTheLivePeakOfRecomputedSteps) {
    int exact = 0, all = 0;
    std::mt19937 random(4);
    for (const RecomputeScope scope : {RecomputeScope::kAllButAttention, RecomputeScope::kLayer})
        for (const auto& [granularity, sp] : {std::pair(Granularity::kStage, 1), std::pair(Granularity::kStage, 2),
                                              std::pair(Granularity::kLayer, 1), std::pair(Granularity::kLayer, 2)}) {
            Scenario s = small_scenario(sp, 2, 5);
            s.policy.granularity = granularity;
            s.policy.placement = ThreeWay{}, s.policy.recompute = scope;
            UndecidedStep undecided(s);
            auto& [subs, plans, step, context] = undecided;
            for (int round = 0; round < 20; ++round) {
                for (std::size_t stage = 0; stage < plans.size(); ++stage) {
                    StagePlan& plan = plans[stage];
                    plan.recomputed.clear();
                    for (std::size_t i = 0; i < subs.size(); ++i) {
                        plan.recomputed.push_back(static_cast<std::int64_t>(random() % 3));
                        const Bytes rest = plan.activation[i] - context.models[stage].cheap()[i] * plan.recomputed[i];
                        plan.offloaded[i] =
                            Bytes{static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(rest.value + 1))};
                    }
                }
                const OffloadedStep offloaded = offload_units(fold_step(s, subs, plans), moved_by_unit(context, plans));
                const std::vector<LivePeak> peaks = live_peaks(offloaded.step.schedule, Space::kDevice);
                // Where it is recomputed, a subsequence waits for its gradient with its workspace in use; elsewhere the
                // model counts the received gradient, at most one message, a little longer than it lives. All layers of
                // a stage at once: the stream, two messages, too, where whole layers put their sums into it.
                const bool stream = scope == RecomputeScope::kLayer && granularity == Granularity::kStage;
                const Bytes message = boundary_bytes(s, subs.front()) * (stream ? 3 : 1);
                for (std::size_t stage = 0; stage < plans.size(); ++stage) {
                    const Bytes peak = context.models[stage].peak(plans[stage].offloaded, plans[stage].recomputed);
                    EXPECT_GE(peak, peaks[stage].bytes) << "sp " << sp << " round " << round;
                    EXPECT_LE(peak, peaks[stage].bytes + message) << "sp " << sp << " round " << round;
                    exact += peak == peaks[stage].bytes, all += 1;
                }
            }
        }
    EXPECT_GT(exact, all * 9 / 10);
}

}  // namespace
}  // namespace sluice
