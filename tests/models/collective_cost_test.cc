#include "models/collective_cost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace sluice {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                                     CollectiveKind::kAllReduce, CollectiveKind::kAllToAll,
                                     CollectiveKind::kBroadcast, CollectiveKind::kReduce};

Collective collective(CollectiveKind kind, Bytes bytes, std::uint32_t calls = 1) {
    return {kind, GroupId{0}, bytes, calls, 0};
}

// 100 GB/s from 1 MB, 300 GB/s from 100 MB in a node; 10 GB/s across nodes; 1 ms per hop, nothing per call.
Calibration round_calibration() {
    Calibration c;
    c.nvlink_collective = {{Bytes{1'000'000}, BytesPerSecond{100e9}}, {Bytes{100'000'000}, BytesPerSecond{300e9}}};
    c.network_collective = {{Bytes{1'000'000}, BytesPerSecond{10e9}}};
    c.collective_step = Seconds{1e-3};
    return c;
}

TEST(CollectiveCost, WhatOneMemberSendsAndHowManyHops) {
    struct Case {
        CollectiveKind kind;
        std::size_t members;
        double fraction;
        std::size_t steps;
    };
    const std::vector<Case> cases = {
        {CollectiveKind::kAllGather, 4, 0.75, 3}, {CollectiveKind::kReduceScatter, 4, 0.75, 3},
        {CollectiveKind::kAllReduce, 4, 1.5, 6},  {CollectiveKind::kAllToAll, 4, 0.75, 3},
        {CollectiveKind::kBroadcast, 4, 1, 3},    {CollectiveKind::kReduce, 4, 1, 3},
        {CollectiveKind::kAllReduce, 2, 1, 2},    {CollectiveKind::kAllGather, 8, 0.875, 7},
    };
    for (const Case& c : cases) {
        EXPECT_EQ(ring_fraction(c.kind, c.members), c.fraction) << name(c.kind);
        EXPECT_EQ(ring_steps(c.kind, c.members), c.steps) << name(c.kind);
    }
}

TEST(CollectiveCost, OneMemberCostsNothing) {
    for (const CollectiveKind kind : kKinds) {
        EXPECT_EQ(ring_fraction(kind, 1), 0);
        EXPECT_EQ(ring_steps(kind, 1), 0U);
        EXPECT_EQ(collective_latency(collective(kind, 1_GiB, 7), 1, round_calibration()).value, 0);
        EXPECT_EQ(collective_time(collective(kind, 1_GiB, 7), 1, false, round_calibration()).value, 0);
    }
}

TEST(CollectiveCost, ACallHasItsOwnLatencyWhateverItsHops) {
    Calibration c = round_calibration();
    c.collective_call = Seconds{2e-3};
    EXPECT_DOUBLE_EQ(collective_latency(collective(CollectiveKind::kAllReduce, 1_MiB, 5), 4, c).value, 0.040);
    EXPECT_DOUBLE_EQ(collective_latency(collective(CollectiveKind::kAllGather, 1_MiB, 5), 4, c).value, 0.025);
    EXPECT_EQ(collective_latency(collective(CollectiveKind::kAllGather, 1_MiB, 5), 1, c).value, 0);
}

TEST(CollectiveCost, LatencyIsPaidByEveryCall) {
    EXPECT_DOUBLE_EQ(collective_latency(collective(CollectiveKind::kAllReduce, 1_MiB, 5), 4, round_calibration()).value,
                     0.030);
    EXPECT_DOUBLE_EQ(collective_latency(collective(CollectiveKind::kAllGather, 1_MiB, 5), 4, round_calibration()).value,
                     0.015);
}

TEST(CollectiveCost, BusBandwidthIsLinearInTheLogarithmAndHeldOutside) {
    const Calibration c = round_calibration();
    EXPECT_DOUBLE_EQ(bus_bandwidth(Bytes{1'000'000}, false, c).value, 100e9);
    EXPECT_DOUBLE_EQ(bus_bandwidth(Bytes{10'000'000}, false, c).value, 200e9);
    EXPECT_DOUBLE_EQ(bus_bandwidth(Bytes{100'000'000}, false, c).value, 300e9);
    EXPECT_DOUBLE_EQ(bus_bandwidth(Bytes{1}, false, c).value, 100e9);
    EXPECT_DOUBLE_EQ(bus_bandwidth(Bytes{0}, false, c).value, 100e9);
    EXPECT_DOUBLE_EQ(bus_bandwidth(Bytes{1'000'000'000}, false, c).value, 300e9);
    EXPECT_DOUBLE_EQ(bus_bandwidth(Bytes{1'000'000'000}, true, c).value, 10e9);
}

TEST(CollectiveCost, WithoutATableTheLinksDecide) {
    EXPECT_TRUE(std::isinf(bus_bandwidth(1_GiB, false, {}).value));
    EXPECT_TRUE(std::isinf(bus_bandwidth(1_GiB, true, {}).value));
    Calibration zero;
    zero.network_collective = {{1_MiB, BytesPerSecond{0}}};
    EXPECT_TRUE(std::isinf(bus_bandwidth(1_GiB, true, zero).value));
    EXPECT_EQ(collective_time(collective(CollectiveKind::kAllReduce, 1_GiB), 4, false, {}).value, 0);
}

TEST(CollectiveCost, TimeAlone) {
    const Calibration c = round_calibration();
    // 4 members gather 100 MB: each sends 75 MB at 300 GB/s = 0.25 ms, after 3 hops of 1 ms.
    EXPECT_DOUBLE_EQ(collective_time(collective(CollectiveKind::kAllGather, Bytes{100'000'000}), 4, false, c).value,
                     0.00325);
    // Two such calls take twice as long: the rate is that of one call's size.
    EXPECT_DOUBLE_EQ(collective_time(collective(CollectiveKind::kAllGather, Bytes{100'000'000}, 2), 4, false, c).value,
                     0.0065);
    // All-reduce over two ranks across nodes: 100 MB each at 10 GB/s = 10 ms, after 2 hops.
    EXPECT_DOUBLE_EQ(collective_time(collective(CollectiveKind::kAllReduce, Bytes{100'000'000}), 2, true, c).value,
                     0.012);
}

// The rings of several adapters share the bytes; the hops inside the nodes carry all of them.
TEST(CollectiveCost, AcrossNodesOverSeveralRails) {
    Calibration c = round_calibration();
    c.collective_step = Seconds{0};
    const auto time = [&](CollectiveKind kind, bool across_nodes, std::size_t rails) {
        return collective_time(collective(kind, Bytes{100'000'000}), 16, across_nodes, c, rails).value;
    };
    // 15/16 of 100 MB at 10, 40 and (8 x 10) GB/s.
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllGather, true, 1), 9.375e-3);
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllGather, true, 4), 9.375e-3 / 4);
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllReduce, true, 8), 2 * 9.375e-3 / 8);
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kBroadcast, true, 4), 2.5e-3);
    // 40 adapters could carry 400 GB/s, NVLink 300. One rank per node has no such hops: NVLink does not matter.
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllGather, true, 40), 93.75e6 / 300e9);
    c.nvlink_collective = {{1_B, BytesPerSecond{1e9}}};
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllGather, true, 1), 9.375e-3);
    // Inside a node there are none, and a member of an all-to-all has one adapter.
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllGather, false, 4), 93.75e6 / 1e9);
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllToAll, true, 4), 9.375e-3);
    c.nvlink_collective.clear();
    EXPECT_DOUBLE_EQ(time(CollectiveKind::kAllGather, true, 40), 9.375e-3 / 40);
}

}  // namespace
}  // namespace sluice
