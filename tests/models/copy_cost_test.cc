#include "models/copy_cost.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "scenarios/scenario.h"

namespace sluice {
namespace {

constexpr Seconds kLatency{1.0 / 1024};  // adds and subtracts exactly

// Eight GPUs of two NUMA nodes; links and rates as they are on nodes of A100s, rounded.
Cluster node() {
    Cluster c;
    c.gpus_per_node = 8;
    c.pcie = {BytesPerSecond{25e9}, BytesPerSecond{24e9}, BytesPerSecond{40e9}, kLatency, 1,
              BytesPerSecond{25e9}, BytesPerSecond{24e9}};
    c.host = {Bytes{0}, Bytes{0}, 2, BytesPerSecond{400e9}};
    return c;
}

TEST(CopyCost, AGpuAloneOnItsLinkHasAllOfIt) {
    EXPECT_EQ(shared_d2h(node()).value, 25e9);
    EXPECT_EQ(shared_h2d(node()).value, 24e9);
}

TEST(CopyCost, TwoGpusBehindOneUplinkHaveHalfOfItEach) {
    Cluster c = node();
    c.pcie.gpus_per_switch = 2;
    EXPECT_EQ(shared_d2h(c).value, 12.5e9);
    EXPECT_EQ(shared_h2d(c).value, 12e9);
    c.pcie.switch_d2h = BytesPerSecond{100e9};  // an uplink that is wide enough leaves the own link to decide
    EXPECT_EQ(shared_d2h(c).value, 25e9);
    EXPECT_EQ(shared_h2d(c).value, 12e9);
}

TEST(CopyCost, PartsOfAGpuShareItsLink) {
    Cluster c = node();
    c.gpus_per_node = c.gpu.parts = 4;
    c.host.numa_nodes = 1;
    EXPECT_EQ(shared_d2h(c).value, 25e9 / 4);
    EXPECT_EQ(shared_h2d(c).value, 6e9);
}

TEST(CopyCost, HostMemoryIsSharedByTheGpusOfItsNumaNode) {
    Cluster c = node();
    c.host.bandwidth = BytesPerSecond{40e9};  // four GPUs each
    EXPECT_EQ(shared_d2h(c).value, 10e9);
    EXPECT_EQ(shared_h2d(c).value, 10e9);
    c.host.numa_nodes = 1;  // all eight
    EXPECT_EQ(shared_d2h(c).value, 5e9);
}

TEST(CopyCost, MemoryOfAnotherNumaNodeIsReachedOverWhatJoinsThem) {
    Cluster c = node();
    c.host.cross_bandwidth = BytesPerSecond{40e9};
    EXPECT_EQ(shared_d2h(c).value, 25e9) << "local copies do not cross";
    c.host.numa = NumaPlacement::kFirst;  // the four GPUs of NUMA node 1 cross
    EXPECT_EQ(shared_d2h(c, 3).value, 25e9);
    EXPECT_EQ(shared_d2h(c, 4).value, 10e9);
    EXPECT_EQ(shared_h2d(c, 4).value, 10e9);
    EXPECT_EQ(shared_d2h(c).value, 10e9) << "the slowest decides";
    c.host.bandwidth = BytesPerSecond{40e9};  // eight GPUs on one DRAM
    EXPECT_EQ(shared_d2h(c, 0).value, 5e9);
    EXPECT_EQ(shared_d2h(c, 4).value, 5e9);
    c.host.numa = NumaPlacement::kInterleave;  // half of every copy crosses, both DRAMs serve all
    EXPECT_EQ(shared_d2h(c).value, 10e9);
    c.host.cross_bandwidth = BytesPerSecond{10e9};
    EXPECT_EQ(shared_d2h(c).value, 5e9);
    EXPECT_EQ(shared_h2d(c).value, 5e9);
    c.host.numa_nodes = 1;
    EXPECT_EQ(shared_d2h(c).value, 5e9) << "eight GPUs on one DRAM; nothing to cross";
}

TEST(CopyCost, HiddenBytesTakeTheLatencyOffTheWindow) {
    EXPECT_EQ(hidden_d2h(node(), Seconds{1} + kLatency), Bytes{25'000'000'000});
    EXPECT_EQ(hidden_h2d(node(), Seconds{0.5} + kLatency), Bytes{12'000'000'000});
    EXPECT_EQ(hidden_d2h(node(), kLatency), 0_B);
    EXPECT_EQ(hidden_d2h(node(), Seconds{0}), 0_B) << "never negative";
    EXPECT_GT(hidden_d2h(node(), Seconds{1e300}), Bytes{1} * 1'000'000'000'000'000'000) << "no overflow";
}

// The paper's own Fig. 5 implies 11 to 14 GB/s per GPU while all of a node copy.
TEST(CopyCost, ShippedA100ClusterIsInTheRangeOfThePaper) {
    const Scenario s =
        read_scenario(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios" / "sppo-gpt65b-128k-a100x64.yaml");
    EXPECT_GE(shared_d2h(s.cluster).value, 11e9);
    EXPECT_LE(shared_d2h(s.cluster).value, 14e9);
}

}  // namespace
}  // namespace sluice
