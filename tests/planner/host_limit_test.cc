// Three-way placement where the host's memory is what is short.
#include <gtest/gtest.h>

#include "models/pinned_memory.h"
#include "planner/lower.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

// One GPU too small for all activations; layer by layer, so that what is moved is rounded up to whole tensors.
Scenario scenario_with_host(Bytes host) {
    Scenario s = small_scenario(1, 1, 4);
    s.model.layers = 8;
    s.policy.granularity = Granularity::kLayer;
    s.policy.placement = ThreeWay{};
    s.sequence = Tokens{32768};
    s.cluster.gpu.memory = 1800_MiB;
    s.cluster.pcie = {BytesPerSecond{200e9}, BytesPerSecond{200e9}, BytesPerSecond{400e9}, Seconds{1e-6}, 1,
                      BytesPerSecond{200e9}, BytesPerSecond{200e9}};  // copies hide
    s.cluster.host.memory = host;
    return s;
}

std::int64_t recomputed(const Plan& plan) {
    std::int64_t layers = 0;
    for (const StagePlan& stage : plan.stages)
        for (const std::int64_t r : stage.recomputed) layers += r;
    return layers;
}

TEST(HostLimit, MoreHostMemoryNeverMeansMoreRecomputing) {
    std::int64_t before = -1, most = 0, least = 1 << 30;
    for (const Bytes host : {0_MiB, 100_MiB, 200_MiB, 400_MiB, 600_MiB, 800_MiB, 1200_MiB, 2048_MiB}) {
        SCOPED_TRACE(host.value >> 20);
        const Scenario s = scenario_with_host(host);
        const Lowered lowered = lower(s);
        ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
        const std::vector<Bytes> pinned = pinned_bytes(lowered.schedule, s.cluster.host.allocator);
        EXPECT_LE(pinned.front(), host);
        const std::int64_t now = recomputed(lowered.plan);
        if (before >= 0) {
            EXPECT_LE(now, before);
        }
        before = now, most = std::max(most, now), least = std::min(least, now);
    }
    EXPECT_LT(least, most) << "what the host takes need not be made again";
    EXPECT_LT(most, 32) << "not everything, as once where rounding to whole tensors went beyond the host";
}

}  // namespace
}  // namespace sluice
