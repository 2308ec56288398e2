#include "sim/topology.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tests/sim/round_machine.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

Names names(const Topology& topology, const Path& path) {
    Names all;
    for (const LinkId id : path) all.push_back(topology.links()[static_cast<std::size_t>(id)].name);
    return all;
}

TEST(Topology, CopiesCrossLinkSwitchAndDram) {
    RoundMachine m = round_machine();
    set(m, "nodes", 2);
    const Topology t(m.cluster, 16);
    EXPECT_EQ(names(t, t.copy_out(Rank{0})), (Names{"node0/gpu0/pcie/out", "node0/switch0/out", "node0/dram0"}));
    EXPECT_EQ(names(t, t.copy_in(Rank{0})), (Names{"node0/dram0", "node0/switch0/in", "node0/gpu0/pcie/in"}));
    EXPECT_EQ(names(t, t.copy_out(Rank{15})), (Names{"node1/gpu7/pcie/out", "node1/switch3/out", "node1/dram1"}));
    EXPECT_EQ(t.memory(Rank{0}), t.memory(Rank{3}));
    EXPECT_NE(t.memory(Rank{3}), t.memory(Rank{4}));
    EXPECT_NE(t.memory(Rank{7}), t.memory(Rank{8}));
}

TEST(Topology, DuplexLinkOnlyWhereItBinds) {
    RoundMachine m = round_machine();
    set(m, "duplex", 15);
    const Topology t(m.cluster, 1);
    const Names both = {"node0/gpu0/pcie/out", "node0/gpu0/pcie/both", "node0/switch0/out", "node0/dram0"};
    EXPECT_EQ(names(t, t.copy_out(Rank{0})), both);
    EXPECT_EQ(names(t, t.copy_in(Rank{0}))[2], "node0/gpu0/pcie/both");
    // Never slower together than one direction alone.
    set(m, "duplex", 3);
    const Topology contradictory(m.cluster, 1);
    const LinkId together = contradictory.copy_out(Rank{0})[1];
    EXPECT_EQ(contradictory.links()[static_cast<std::size_t>(together)].rate, gib_per_second(8));
}

TEST(Topology, PeersOfANode) {
    RoundMachine m = round_machine();
    const Topology nvlink(m.cluster, 8);
    EXPECT_EQ(names(nvlink, nvlink.transfer(Rank{0}, Rank{5})),
              (Names{"node0/gpu0/nvlink/out", "node0/gpu5/nvlink/in"}));
    EXPECT_EQ(names(nvlink, nvlink.collective(Rank{0}, Rank{1})),
              (Names{"node0/gpu0/channel", "node0/gpu0/nvlink/out", "node0/gpu1/nvlink/in"}));
    set(m, "nvlink", 0);
    const Topology pcie(m.cluster, 8);
    EXPECT_EQ(names(pcie, pcie.transfer(Rank{0}, Rank{1})), (Names{"node0/gpu0/pcie/out", "node0/gpu1/pcie/in"}));
    EXPECT_EQ(names(pcie, pcie.transfer(Rank{0}, Rank{2})),
              (Names{"node0/gpu0/pcie/out", "node0/switch0/out", "node0/switch1/in", "node0/gpu2/pcie/in"}));
}

TEST(Topology, AcrossNodesThroughNics) {
    RoundMachine m = round_machine();
    set(m, "nodes", 2);
    const Topology shared(m.cluster, 16);
    EXPECT_EQ(names(shared, shared.transfer(Rank{3}, Rank{14})),
              (Names{"node0/gpu3/pcie/out", "node0/nic1/out", "node1/nic3/in", "node1/gpu6/pcie/in"}));
    EXPECT_EQ(
        names(shared, shared.collective(Rank{3}, Rank{14})),
        (Names{"node0/gpu3/rail", "node0/gpu3/pcie/out", "node0/nic1/out", "node1/nic3/in", "node1/gpu6/pcie/in"}));
    set(m, "nic_shares_pcie", 0);
    const Topology own(m.cluster, 16);
    EXPECT_EQ(names(own, own.transfer(Rank{3}, Rank{14})), (Names{"node0/nic1/out", "node1/nic3/in"}));
}

TEST(Topology, LatencyByPath) {
    RoundMachine m = round_machine();
    set(m, "nodes", 2);
    set(m, "pcie_latency", 1);
    set(m, "nvlink_latency", 2);
    set(m, "network_latency", 3);
    EXPECT_EQ(Topology(m.cluster, 16).copy_latency(), Seconds{1});
    EXPECT_EQ(Topology(m.cluster, 16).transfer_latency(Rank{0}, Rank{1}), Seconds{2});
    EXPECT_EQ(Topology(m.cluster, 16).transfer_latency(Rank{0}, Rank{8}), Seconds{3});
    set(m, "nvlink", 0);
    EXPECT_EQ(Topology(m.cluster, 16).transfer_latency(Rank{0}, Rank{1}), Seconds{1});
}

TEST(Topology, ImpossibleRequestsAreBugs) {
    RoundMachine m = round_machine();
    EXPECT_THROW(Topology(m.cluster, 9), InternalError);
    set(m, "nodes", 2);
    set(m, "nics", 0);
    const Topology t(m.cluster, 16);
    EXPECT_THROW(t.transfer(Rank{0}, Rank{8}), InternalError);
    EXPECT_THROW(t.transfer(Rank{0}, Rank{0}), InternalError);
}

}  // namespace
}  // namespace sluice
