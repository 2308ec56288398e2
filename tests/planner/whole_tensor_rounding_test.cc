// Three-way placement of a shipped scenario whose activations nearly fill both the GPU and the host.
#include <gtest/gtest.h>

#include <filesystem>

#include "planner/lower.h"
#include "scenarios/scenario.h"

namespace sluice {
namespace {

// Once a limit that led to the same amounts as another ended the search, at a placement that did not fit: then all was
// recomputed (n 4, 5, 7); and every unit rounded up by itself asked too much of the host (n 6, 8: 14 and 18 layers).
TEST(WholeTensorRounding, LittleIsRecomputedWhereLittleIsShort) {
    Scenario s = read_scenario(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios/dense-3b-128k-h200x1.yaml");
    for (const std::int64_t n : {3, 4, 5, 6, 7, 8}) {
        SCOPED_TRACE(n);
        s.policy.n = n;
        const PlannedStep step = plan_step(s);
        ASSERT_TRUE(step.feasible()) << step.reasons.front();
        std::int64_t recomputed = 0;
        for (const std::int64_t layers : step.plan.stages.front().recomputed) recomputed += layers;
        EXPECT_LE(recomputed, 2);
    }
}

}  // namespace
}  // namespace sluice
