// What nvbandwidth says, in a cluster.
#include "runtime/profile/link_rates.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

NvbandwidthRun::Matrix row(const std::string& test, std::vector<std::optional<double>> cells) {
    return {test, "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)", 1, cells.size(), cells};
}

NvbandwidthRun four_gpus() {
    NvbandwidthRun run;
    run.matrices = {row("host_to_device_memcpy_ce", {50, 52, 54, 90}),
                    row("device_to_host_memcpy_ce", {40, 40, 40, 40}),
                    row("host_to_device_bidirectional_memcpy_ce", {30, 30, 30, 30}),
                    row("device_to_host_bidirectional_memcpy_ce", {35, 35, 35, 35}),
                    row("all_to_host_memcpy_ce", {20, 20, 20, 20}),
                    row("host_to_all_memcpy_ce", {25, 25, 25, 25}),
                    row("all_to_host_bidirectional_memcpy_ce", {10, 10, 10, 10}),
                    row("host_to_all_bidirectional_memcpy_ce", {12, 12, 12, 12}),
                    row("host_device_latency_sm", {800, 800, 800, 800}),
                    {"device_to_device_memcpy_read_ce",
                     "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                     4,
                     4,
                     {{}, 380, 390, 400, 380, {}, 390, 400, 380, 390, {}, 400, 380, 390, 400, {}}},
                    {"device_to_device_memcpy_write_ce",
                     "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
                     4,
                     4,
                     {0, 400, 400, 400, 400, 0, 400, 400, 400, 400, 0, 400, 400, 400, 400, 0}}};
    return run;
}

Cluster cluster() {
    Cluster c;
    c.gpus_per_node = 4;
    c.host.numa_nodes = 2;
    c.pcie.d2h = c.pcie.h2d = BytesPerSecond{1e9};
    c.pcie.duplex = BytesPerSecond{2e9};
    c.nvlink = {BytesPerSecond{1e9}, Seconds{1e-6}};
    return c;
}

TEST(LinkRates, OfANodeGoIntoItsCluster) {
    Cluster c = cluster();
    EXPECT_EQ(set_links(c, link_rates(four_gpus(), "n")), (std::vector<std::string>{"host", "nvlink", "pcie"}));
    EXPECT_EQ(c.pcie.d2h.value, 40e9);
    EXPECT_EQ(c.pcie.h2d.value, 52e9);  // the median of four is the lower one in the middle
    EXPECT_EQ(c.pcie.duplex.value, 65e9);
    EXPECT_EQ(c.pcie.switch_d2h.value, 40e9);
    EXPECT_EQ(c.host.bandwidth.value, 4 * (10e9 + 12e9) / 2);  // of one of two NUMA nodes
    EXPECT_EQ(c.nvlink.bandwidth.value, 395e9);                // the mean of reading and writing
    EXPECT_EQ(c.nvlink.latency, Seconds{1e-6});
}

TEST(LinkRates, SwitchesShareWhatAllGpusReachTogether) {
    Cluster c = cluster();
    c.pcie.gpus_per_switch = 2;
    set_links(c, link_rates(four_gpus(), "n"));
    EXPECT_EQ(c.pcie.switch_d2h.value, 40e9);
    EXPECT_EQ(c.pcie.switch_h2d.value, 50e9);
    c = cluster();
    c.gpus_per_node = 8, c.pcie.gpus_per_switch = 2;  // half of a node says nothing of what its GPUs share
    const Cluster before = c;
    set_links(c, link_rates(four_gpus(), "n"));
    EXPECT_EQ(c.pcie.switch_d2h, before.pcie.switch_d2h);
    EXPECT_EQ(c.host.bandwidth, before.host.bandwidth);
}

TEST(LinkRates, WhatWasNotMeasuredStays) {
    NvbandwidthRun run;
    run.matrices = {row("device_to_host_memcpy_ce", {0.5})};
    Cluster c = cluster();
    EXPECT_EQ(set_links(c, link_rates(run, "n")), std::vector<std::string>{"pcie"});
    EXPECT_EQ(c.pcie.duplex.value, 1.5e9);  // no more than both directions
    EXPECT_EQ(c.nvlink, cluster().nvlink);
    const LinkRates none = link_rates({}, "n");
    EXPECT_TRUE(set_links(c, none).empty());
    EXPECT_EQ(*merged(link_rates(run, "n"), link_rates(four_gpus(), "m")).out, BytesPerSecond{20.25e9});
}

TEST(LinkRates, AMatrixOfAnotherFormIsRefused) {
    NvbandwidthRun run = four_gpus();
    run.matrices[0].rows = 2, run.matrices[0].cells.resize(8);
    EXPECT_THROW(link_rates(run, "n"), InputError);
    run = four_gpus();
    run.matrices[1] = row("device_to_host_memcpy_ce", {1, 2});
    EXPECT_THROW(link_rates(run, "n"), InputError);
    run = four_gpus();
    run.matrices[0].caption = "latency (ns)";
    EXPECT_THROW(link_rates(run, "n"), InputError);
}

}  // namespace
}  // namespace sluice
