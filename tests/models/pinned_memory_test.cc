#include "models/pinned_memory.h"

#include <gtest/gtest.h>

#include <random>

namespace sluice {
namespace {

using Table = std::vector<std::vector<Bytes>>;

// Nodes of four GPUs and two NUMA nodes with `usable` bytes each.
Cluster cluster(NumaPlacement numa, std::int64_t usable, std::int64_t nodes = 1) {
    Cluster c;
    c.nodes = nodes;
    c.gpus_per_node = 4;
    c.host.memory = Bytes{2 * usable + 10};
    c.host.reserved = Bytes{10};
    c.host.numa_nodes = 2;
    c.host.numa = numa;
    return c;
}

const std::vector<Bytes> kFour = {10_B, 20_B, 35_B, 41_B};

TEST(PinnedMemory, LocalIsTheNumaNodeOfTheGpu) {
    const PinnedMemory pinned = place_pinned(kFour, cluster(NumaPlacement::kLocal, 100));
    EXPECT_EQ(pinned.by_rank, (Table{{10_B, 0_B}, {20_B, 0_B}, {0_B, 35_B}, {0_B, 41_B}}));
    EXPECT_EQ(pinned.by_node, (Table{{30_B, 76_B}}));
}

TEST(PinnedMemory, InterleavedArenasAreHalvedToTheByte) {
    const PinnedMemory pinned = place_pinned(kFour, cluster(NumaPlacement::kInterleave, 100));
    EXPECT_EQ(pinned.by_rank, (Table{{5_B, 5_B}, {10_B, 10_B}, {18_B, 17_B}, {21_B, 20_B}}));
    EXPECT_EQ(pinned.by_node, (Table{{54_B, 52_B}}));
}

TEST(PinnedMemory, FirstFillsAndSpillsOver) {
    const PinnedMemory roomy = place_pinned(kFour, cluster(NumaPlacement::kFirst, 106));
    EXPECT_EQ(roomy.by_node, (Table{{106_B, 0_B}}));
    const PinnedMemory tight = place_pinned(kFour, cluster(NumaPlacement::kFirst, 60));
    EXPECT_EQ(tight.by_rank, (Table{{10_B, 0_B}, {20_B, 0_B}, {30_B, 5_B}, {0_B, 41_B}}));
    const PinnedMemory over = place_pinned(kFour, cluster(NumaPlacement::kFirst, 40));
    EXPECT_EQ(over.by_node, (Table{{40_B, 66_B}})) << "what fits nowhere is on the last";
}

TEST(PinnedMemory, NodesAreFilledOneByOne) {
    const std::vector<Bytes> six = {1_B, 2_B, 3_B, 4_B, 50_B, 60_B};
    const PinnedMemory pinned = place_pinned(six, cluster(NumaPlacement::kLocal, 100, 2));
    EXPECT_EQ(pinned.by_node, (Table{{3_B, 7_B}, {110_B, 0_B}}));
    EXPECT_EQ(pinned.largest_node(), 1U);
}

std::vector<std::string> shortages(NumaPlacement numa, std::int64_t usable, std::int64_t nodes = 1,
                                   std::vector<Bytes> by_rank = kFour) {
    const Cluster c = cluster(numa, usable, nodes);
    return host_shortages(place_pinned(by_rank, c), c);
}

TEST(PinnedMemory, EachNumaNodeHasItsOwnLimitWhenLocal) {
    using Lines = std::vector<std::string>;
    const std::string has_room = "; the node as a whole has room, which host.numa interleave would use";
    const std::string tail = " of host memory needed for the offloaded activations of ranks ";
    EXPECT_EQ(shortages(NumaPlacement::kLocal, 76), Lines{});
    EXPECT_EQ(shortages(NumaPlacement::kLocal, 75),
              Lines{"node 0, NUMA node 1: 76 B" + tail + "2-3, 75 B usable" + has_room});
    EXPECT_EQ(shortages(NumaPlacement::kLocal, 29), (Lines{"node 0, NUMA node 0: 30 B" + tail + "0-1, 29 B usable",
                                                           "node 0, NUMA node 1: 76 B" + tail + "2-3, 29 B usable"}));
    EXPECT_EQ(shortages(NumaPlacement::kInterleave, 53), Lines{}) << "106 B in all";
    EXPECT_EQ(shortages(NumaPlacement::kInterleave, 52), Lines{"node 0: 106 B" + tail + "0-3, 104 B usable"});
    EXPECT_EQ(shortages(NumaPlacement::kFirst, 53), Lines{});
    EXPECT_EQ(shortages(NumaPlacement::kFirst, 52), Lines{"node 0: 106 B" + tail + "0-3, 104 B usable"});
    EXPECT_EQ(shortages(NumaPlacement::kLocal, 40, 2, {0_B, 0_B, 0_B, 0_B, 41_B}),
              Lines{"node 1, NUMA node 0: 41 B of host memory needed for the offloaded activations of rank 4, 40 B "
                    "usable" +
                    has_room});
}

TEST(PinnedMemory, MoreHostMemoryNeverMakesInfeasible) {
    std::mt19937 random(1);
    for (int round = 0; round < 2000; ++round) {
        Cluster c = cluster(static_cast<NumaPlacement>(random() % 3), static_cast<std::int64_t>(random() % 200 + 1), 2);
        std::vector<Bytes> by_rank(random() % 8 + 1);
        for (Bytes& bytes : by_rank) bytes = Bytes{static_cast<std::int64_t>(random() % 100)};
        const bool fits = host_shortages(place_pinned(by_rank, c), c).empty();
        c.host.memory += Bytes{static_cast<std::int64_t>(random() % 50)};
        const PinnedMemory more = place_pinned(by_rank, c);
        if (fits) {
            EXPECT_TRUE(host_shortages(more, c).empty());
        }
        for (std::size_t r = 0; r < by_rank.size(); ++r)
            EXPECT_EQ(more.by_rank[r][0] + more.by_rank[r][1], by_rank[r]) << "every byte lies somewhere";
    }
}

TEST(PinnedMemory, TheFullestNumaNodePinsLongest) {
    Cluster c = cluster(NumaPlacement::kLocal, 100);
    EXPECT_FALSE(pin_time(place_pinned(kFour, c), c));
    c.host.pin_rate = BytesPerSecond{19};
    EXPECT_EQ(pin_time(place_pinned(kFour, c), c)->value, 4);
    c.host.numa = NumaPlacement::kInterleave;
    EXPECT_EQ(pin_time(place_pinned(kFour, c), c)->value, 54.0 / 19);
}

}  // namespace
}  // namespace sluice
