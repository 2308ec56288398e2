#include "planner/scaled.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/lower.h"
#include "planner/search.h"
#include "planner/step_estimate.h"
#include "tests/support/random_scenario.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

TEST(Scaled, TouchesWhatTheResourceIsMadeOf) {
    const Scenario s = small_scenario();
    const Scenario flops = scaled(s, Resource::kFlops, 2);
    EXPECT_EQ(flops.calibration.gemm[0].rate, s.calibration.gemm[0].rate * 2);
    EXPECT_EQ(flops.calibration.attention[0].backward, s.calibration.attention[0].backward * 2);
    EXPECT_EQ(flops.cluster.gpu.peak, s.cluster.gpu.peak * 2);
    EXPECT_EQ(flops.calibration.pointwise, s.calibration.pointwise);
    const Scenario out = scaled(s, Resource::kD2h, 2);
    EXPECT_EQ(out.cluster.pcie.d2h, s.cluster.pcie.d2h * 2);
    EXPECT_EQ(out.cluster.pcie.h2d, s.cluster.pcie.h2d);
    EXPECT_EQ(out.cluster.pcie.duplex, s.cluster.pcie.duplex * 2);
    EXPECT_EQ(out.cluster.host.bandwidth, s.cluster.host.bandwidth * 2);
    const Scenario links = scaled(s, Resource::kNvlink, 2);
    EXPECT_EQ(links.calibration.nvlink_collective[0].bus_bandwidth,
              s.calibration.nvlink_collective[0].bus_bandwidth * 2);
    EXPECT_EQ(links.cluster.network.bandwidth, s.cluster.network.bandwidth);
    const Scenario memory = scaled(s, Resource::kGpuMemory, 1.5);
    EXPECT_EQ(memory.cluster.gpu.memory, 1536_MiB);
}

// Exactly, by the cost model: on the plans found with and without, the best does not get slower.
TEST(Scaled, MoreOfAResourceNeverMakesTheBestPlanSlower) {
    std::mt19937 random(11);
    for (int seed = 0; seed < 24; ++seed) {
        Scenario s = random_scenario(random);
        s.cluster.gpu.memory = Bytes{static_cast<std::int64_t>(60 + random() % 100) << 20};
        const PlannedStep before = plan_step(s);
        if (!before.feasible()) continue;
        for (const Resource resource : kResources) {
            const Scenario more = scaled(s, resource, 1.1);
            const Seconds same = estimate_step(before.folded, more).step;
            EXPECT_LE(same, before.estimate) << seed << ", " << name(resource);
            const PlannedStep again = plan_step(more);
            EXPECT_TRUE(again.feasible()) << seed << ", " << name(resource);
            EXPECT_LE(std::min(same, again.estimate), before.estimate) << seed << ", " << name(resource);
        }
    }
}

TEST(Scaled, TwiceTheFlopsHalveAComputeBoundStep) {
    Scenario s = small_scenario(1, 1, 4);
    s.calibration.pointwise = BytesPerSecond{1e18};
    s.calibration.kernel_gap = Seconds{0};
    const Seconds before = plan_step(s).estimate, after = plan_step(scaled(s, Resource::kFlops, 2)).estimate;
    EXPECT_NEAR(before / after, 2, 0.01);
}

}  // namespace
}  // namespace sluice
