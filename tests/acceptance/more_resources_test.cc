// More of any resource, planned for anew, is at most 1% slower in the replay, over random small clusters and models.
// (By the cost model never, on one set of plans: planner_test, Scaled.*.)
#include <gtest/gtest.h>

#include "planner/scaled.h"
#include "tests/acceptance/predict.h"
#include "tests/support/random_scenario.h"

namespace sluice {
namespace {

Seconds replayed(const Scenario& scenario, const Lowered& lowered) {
    SimulateOptions options;
    options.kernels = options.memory = false;
    return simulate(lowered.schedule, scenario.cluster, scenario.calibration, options).trace.step;
}

TEST(MoreResources, AtMostOnePercentSlowerInReplay) {
    std::mt19937 random(21);
    int compared = 0, faster = 0;
    for (int seed = 0; seed < 40; ++seed) {
        Scenario s = random_scenario(random);
        s.cluster.gpu.memory = Bytes{static_cast<std::int64_t>(60 + random() % 100) << 20};
        s.policy.placement = seed % 2 == 0 ? PlacementPolicy{AdaptiveOffload{}} : PlacementPolicy{ThreeWay{}};
        const Lowered before = lower(s);
        if (!before.feasible()) continue;
        const Seconds step = replayed(s, before);
        for (const Resource resource : kResources) {
            const Scenario more = scaled(s, resource, 1.1);
            const Lowered after = lower(more);
            ASSERT_TRUE(after.feasible()) << seed << ", " << name(resource);
            const Seconds again = replayed(more, after);
            EXPECT_LE(again / step, 1.01) << seed << ", " << name(resource);
            ++compared, faster += again < step;
        }
    }
    EXPECT_GT(compared, 100);
    EXPECT_GT(faster, compared / 4);
}

}  // namespace
}  // namespace sluice
