// On an H200, by its measured calibration: what adaptive placement moves never makes a step slower than moving
// everything or nothing, where those fit.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "tests/acceptance/predict.h"

namespace sluice {
namespace {

struct Case {
    const char* scenario;
    std::int64_t kibi_tokens, n;
    TraversalOrder order;
};

// With nothing moved all fit but the last two.
const Case kCases[] = {{"dense-1b-64k-h200x1", 32, 4, TraversalOrder::kSubsequenceMajor},
                       {"dense-1b-64k-h200x1", 32, 4, TraversalOrder::kLayerMajor},
                       {"dense-1b-64k-h200x1", 64, 8, TraversalOrder::kSubsequenceMajor},
                       {"dense-1b-64k-h200x1", 96, 4, TraversalOrder::kLayerMajor},
                       {"dense-3b-64k-h200x1", 16, 2, TraversalOrder::kLayerMajor},
                       {"dense-3b-64k-h200x1", 32, 4, TraversalOrder::kSubsequenceMajor},
                       {"dense-3b-64k-h200x1", 48, 8, TraversalOrder::kSubsequenceMajor},
                       {"dense-3b-64k-h200x1", 48, 4, TraversalOrder::kLayerMajor}};

Scenario scenario_of(const Case& c, const Calibration& measured) {
    Scenario s = shipped(c.scenario);
    s.calibration = measured;
    s.sequence = Tokens{c.kibi_tokens * 1024};
    s.policy.n = c.n;
    s.policy.order = c.order;
    s.policy.granularity = Granularity::kLayer;
    return s;
}

std::optional<Seconds> step_with(Scenario s, const PlacementPolicy& placement) {
    s.policy.placement = placement;
    const Lowered lowered = lower(s);
    if (!lowered.feasible()) return std::nullopt;
    return replay(s, lowered).step;
}

TEST(AdaptiveIsFastest, NeverSlowerThanFullOrNone) {
    const Calibration measured = shipped("dense-1b-64k-h200x1").calibration;
    ASSERT_EQ(measured.name, "h200");
    int beside_none = 0, beside_full = 0, without_none = 0;
    for (const Case& c : kCases) {
        SCOPED_TRACE(testing::Message() << c.scenario << ", " << c.kibi_tokens << " Ki, n " << c.n
                                        << (c.order == TraversalOrder::kLayerMajor ? ", layer" : ", subsequence"));
        const Scenario s = scenario_of(c, measured);
        const std::optional<Seconds> adaptive = step_with(s, AdaptiveOffload{}), none = step_with(s, KeepAll{}),
                                     full = step_with(s, OffloadAll{});
        if (none || full) {
            ASSERT_TRUE(adaptive.has_value()) << "the others fit";
        }
        if (none) {
            EXPECT_LE(adaptive->value, none->value * 1.001);
            ++beside_none;
        }
        if (full) {
            EXPECT_LE(adaptive->value, full->value * 1.001);
            ++beside_full;
        }
        if (!none && full) ++without_none;
    }
    EXPECT_GE(beside_none, 3) << "cases in which nothing has to move";
    EXPECT_GE(beside_full, 4) << "cases that the host holds";
    EXPECT_GE(without_none, 2) << "cases in which something has to";
}

}  // namespace
}  // namespace sluice
