// A step replays the same with and without its device buffers: to the last bit of its length.
#include "planner/unfold_step.h"
#include "schedule/pinned_bytes.h"
#include "tests/acceptance/predict.h"
#include "tests/support/random_scenario.h"

namespace sluice {
namespace {

Seconds replayed(const Scenario& scenario, const Schedule& schedule) {
    SimulateOptions options;
    options.events = false;
    return simulate(schedule, scenario.cluster, scenario.calibration, options).trace.step;
}

TEST(ReplayWithoutDeviceBuffers, PinsTheSameAndTakesTheSameTime) {
    std::mt19937 random(33);
    int compared = 0;
    for (int seed = 0; seed < 24; ++seed) {
        Scenario s = random_scenario(random);
        s.policy.placement = OffloadRatio{0.4};
        s.cluster.host.allocator = seed % 2 == 0 ? HostAllocator::kExact : HostAllocator::kPowerOfTwo;
        const PlannedStep step = plan_step(s);
        if (!step.feasible()) continue;
        const Schedule whole = unfold_step(step.folded, s);
        const Schedule bare = unfold_step(without_device_buffers(step.folded), s);
        ASSERT_EQ(bare.ops.size(), whole.ops.size());
        EXPECT_EQ(arena_bytes(bare), arena_bytes(whole)) << seed;
        EXPECT_EQ(power_of_two_bytes(bare), power_of_two_bytes(whole)) << seed;
        EXPECT_EQ(replayed(s, bare), replayed(s, whole)) << seed;
        EXPECT_LT(bare.buffers.size(), whole.buffers.size());
        EXPECT_FALSE(bare.buffers.empty()) << seed;
        ++compared;
    }
    EXPECT_GT(compared, 12);
}

}  // namespace
}  // namespace sluice
