#include "schedule/happens_before.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "schedule/topological_order.h"
#include "tests/support/random_program.h"
#include "tests/support/reachability.h"

namespace sluice {
namespace {

TEST(HappensBefore, FollowsLanesAndAfterAndNothingElse) {
    ScheduleBuilder b(2);
    const OpId first = b.compute(0), sent = b.send(0, 1, 1_KiB, {}, {first});
    const OpId received = b.receive(1, 0, 1_KiB), second = b.compute(0), last = b.compute(1, {}, {received});
    const auto before = HappensBefore::of(b.schedule);
    ASSERT_TRUE(before);
    EXPECT_TRUE((*before)(first, sent));
    EXPECT_TRUE((*before)(first, second));
    EXPECT_TRUE((*before)(received, last));
    EXPECT_FALSE((*before)(sent, second));  // different lanes
    EXPECT_FALSE((*before)(second, first));
    EXPECT_FALSE((*before)(first, first));
}

TEST(HappensBefore, AcceptsAfterThatNamesLaterOps) {
    ScheduleBuilder b(1);
    const OpId waits = b.lone_collective(0), later = b.compute(0);
    b.schedule.ops[index(waits)].after = {later};
    const auto before = HappensBefore::of(b.schedule);
    ASSERT_TRUE(before);
    EXPECT_TRUE((*before)(later, waits));
}

TEST(HappensBefore, IsEmptyOnACycle) {
    ScheduleBuilder b(1);
    const OpId first = b.compute(0), second = b.compute(0);
    b.schedule.ops[index(first)].after = {second};
    EXPECT_FALSE(HappensBefore::of(b.schedule));
}

TEST(HappensBefore, AgreesWithReachabilityOnRandomPrograms) {
    std::size_t cyclic = 0, ordered = 0;
    for (std::uint32_t seed = 0; seed < 1500; ++seed) {
        const Schedule schedule = random_program(seed, {.ranks = 1 + seed % 2,
                                                        .ops = 4 + seed % 20,
                                                        .after_percent = seed % 70,
                                                        .forward_references = seed % 3 == 0});
        const Reachability expected(schedule);
        const auto before = HappensBefore::of(schedule);
        ASSERT_EQ(before.has_value(), !expected.cyclic()) << "seed " << seed;
        cyclic += expected.cyclic();
        if (!before) continue;
        for (const Op& a : schedule.ops)
            for (const Op& b : schedule.ops) {
                if (a.rank != b.rank) continue;
                ASSERT_EQ((*before)(a.id, b.id), expected(a.id, b.id))
                    << "seed " << seed << " ops " << index(a.id) << " " << index(b.id);
                ordered += expected(a.id, b.id);
            }
    }
    EXPECT_GT(cyclic, 50U);
    EXPECT_GT(ordered, 10000U);
}

TEST(TopologicalOrder, IsTheListedOrderWhereThatIsOne) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        const Schedule schedule = random_program(seed, {.ranks = 2, .ops = 20});
        const auto order = topological_order(schedule, LaneIndex(schedule));
        ASSERT_TRUE(order);
        EXPECT_TRUE(std::ranges::is_sorted(*order));
    }
}

TEST(TopologicalOrder, PutsEveryOpAfterWhatItWaitsFor) {
    std::size_t unsorted = 0;
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        const Schedule schedule = random_program(seed, {.ranks = 2, .ops = 20, .forward_references = true});
        const auto order = topological_order(schedule, LaneIndex(schedule));
        if (!order) continue;
        unsorted += !std::ranges::is_sorted(*order);
        const Reachability before(schedule);
        for (std::size_t i = 0; i < order->size(); ++i)
            for (std::size_t j = i; j < order->size(); ++j)
                ASSERT_FALSE(before((*order)[j], (*order)[i])) << "seed " << seed;
    }
    EXPECT_GT(unsorted, 20U);
}

}  // namespace
}  // namespace sluice
