// Every YAML file that is shipped reads, and the published cases are the ones that the paper names.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <string>

#include "base/file.h"
#include "scenarios/read_architecture.h"
#include "scenarios/read_calibration.h"
#include "scenarios/read_cluster.h"
#include "scenarios/scenario.h"

namespace sluice {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios";

std::set<std::filesystem::path> yaml_files(const std::filesystem::path& folder) {
    std::set<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".yaml") files.insert(entry.path());
    return files;
}

// Reads each file of a folder on its own and returns how many there are.
template <class Read>
std::size_t read_all(const std::filesystem::path& folder, Read read) {
    const std::set<std::filesystem::path> files = yaml_files(folder);
    for (const auto& file : files) {
        const std::string origin = file.string();
        const YamlNode tree = parse_yaml(read_file(file, 1_MiB), origin);
        EXPECT_EQ(read(YamlField{&tree, "", origin, tree.place}, file.stem().string()).name, file.stem().string());
    }
    return files.size();
}

TEST(ShippedScenarios, NamedFilesRead) {
    EXPECT_GE(read_all(kFolder / "architectures", read_architecture), 5U);
    EXPECT_GE(read_all(kFolder / "clusters", read_cluster), 5U);
    EXPECT_GE(read_all(kFolder / "calibrations", read_calibration), 4U);
}

TEST(ShippedScenarios, ScenariosRead) {
    std::set<std::string> fingerprints;
    for (const auto& file : yaml_files(kFolder)) {
        const Scenario scenario = read_scenario(file);
        EXPECT_EQ(scenario.name, file.stem().string());
        EXPECT_TRUE(scenario.policy.automatic.any() || scenario.ranks() == scenario.cluster.gpus()) << file;
        fingerprints.insert(scenario.fingerprint);
    }
    EXPECT_EQ(fingerprints.size(), yaml_files(kFolder).size());  // all different
}

TEST(ShippedScenarios, ArePublishedCases) {
    constexpr std::int64_t kKi = 1024;
    const struct {
        std::string file, model;
        std::int64_t layers, hidden, sequence, gpus, sp, pp, n;
    } cases[] = {
        // The rows of Table 4. Six values of n are ours: the scenario files say which.
        {"sppo-gpt7b-512k-a100x32", "gpt-7b", 32, 4096, 512 * kKi, 32, 8, 4, 32},
        {"sppo-gpt7b-640k-a100x32", "gpt-7b", 32, 4096, 640 * kKi, 32, 8, 4, 64},
        {"sppo-gpt7b-768k-a100x32", "gpt-7b", 32, 4096, 768 * kKi, 32, 8, 4, 80},
        {"sppo-gpt7b-896k-a100x32", "gpt-7b", 32, 4096, 896 * kKi, 32, 8, 4, 128},
        {"sppo-gpt7b-1m-a100x32", "gpt-7b", 32, 4096, 1024 * kKi, 32, 8, 4, 160},
        {"sppo-gpt13b-512k-a100x64", "gpt-13b", 40, 5120, 512 * kKi, 64, 8, 8, 32},
        {"sppo-gpt13b-640k-a100x64", "gpt-13b", 40, 5120, 640 * kKi, 64, 8, 8, 64},
        {"sppo-gpt13b-768k-a100x64", "gpt-13b", 40, 5120, 768 * kKi, 64, 8, 8, 80},
        {"sppo-gpt13b-1m-a100x64", "gpt-13b", 40, 5120, 1024 * kKi, 64, 8, 8, 96},
        {"sppo-gpt13b-1280k-a100x64", "gpt-13b", 40, 5120, 1280 * kKi, 64, 8, 8, 160},
        {"sppo-gpt65b-512k-a100x128", "gpt-65b", 80, 8192, 512 * kKi, 128, 16, 8, 32},
        {"sppo-gpt65b-600k-a100x128", "gpt-65b", 80, 8192, 600 * kKi, 128, 16, 8, 64},
        {"sppo-gpt65b-640k-a100x128", "gpt-65b", 80, 8192, 640 * kKi, 128, 16, 8, 64},
        {"sppo-gpt65b-768k-a100x128", "gpt-65b", 80, 8192, 768 * kKi, 128, 16, 8, 80},
        {"sppo-gpt65b-1m-a100x128", "gpt-65b", 80, 8192, 1024 * kKi, 128, 16, 8, 128},
        // Figures 1, 12 and 5.
        {"sppo-gpt7b-2m-a100x64", "gpt-7b", 32, 4096, 2 << 20, 64, 8, 8, 256},
        {"sppo-gpt7b-4m-a100x128", "gpt-7b", 32, 4096, 4 << 20, 128, 8, 16, 256},
        {"sppo-gpt65b-128k-a100x64", "gpt-65b", 80, 8192, 128 << 10, 64, 8, 8, 8},
    };
    for (const auto& expected : cases) {
        SCOPED_TRACE(expected.file);
        const Scenario s = read_scenario(kFolder / (expected.file + ".yaml"));
        EXPECT_EQ(s.model.name, expected.model);
        EXPECT_EQ(s.model.layers, expected.layers);
        EXPECT_EQ(s.model.hidden, expected.hidden);
        EXPECT_EQ(s.model.heads * s.model.head_dim, expected.hidden);
        EXPECT_EQ(s.model.ffn, 4 * expected.hidden);
        EXPECT_EQ(s.model.vocabulary, 50304);
        EXPECT_EQ(s.cluster.name, "a100-sppo");
        EXPECT_EQ(s.cluster.gpu.memory, 80_GiB);
        EXPECT_EQ(s.calibration.name, "a100-published");
        EXPECT_EQ(s.sequence, Tokens{expected.sequence});
        EXPECT_EQ(s.batch, 1);
        EXPECT_EQ(s.cluster.gpus(), expected.gpus);
        EXPECT_EQ(s.policy.sp, expected.sp);
        EXPECT_EQ(s.policy.pp, expected.pp);
        EXPECT_EQ(s.policy.n, expected.n);
        EXPECT_EQ(s.policy.partition.kind, PartitionKind::kFlops);
        EXPECT_TRUE(std::holds_alternative<AdaptiveOffload>(s.policy.placement));
        EXPECT_EQ(s.policy.granularity, Granularity::kStage);
        EXPECT_EQ(s.policy.inventory, Inventory::kRuntime);
    }
}

template <class Read>
auto read_shipped(const std::string& folder, const std::string& name, Read read) {
    const std::string origin = (kFolder / folder / (name + ".yaml")).string();
    const YamlNode tree = parse_yaml(read_file(origin, 1_MiB), origin);
    return read(YamlField{&tree, "", origin, tree.place}, name);
}

TEST(ShippedScenarios, ClustersAreTheMachinesNamed) {
    const struct {
        std::string name;
        std::int64_t gpus, numa_nodes, nics;
        Bytes gpu_memory, host_memory;
        bool nvlink;
    } cases[] = {
        {"h200x1", 1, 1, 0, 143155_MiB, 125_GiB, false},
        {"h200x2", 2, 1, 0, 143155_MiB, 250_GiB, true},
        {"h100x8", 8, 2, 8, 80_GiB, 2048_GiB, true},
    };
    for (const auto& expected : cases) {
        SCOPED_TRACE(expected.name);
        const Cluster cluster = read_shipped("clusters", expected.name, read_cluster);
        EXPECT_EQ(cluster.nodes, 1);
        EXPECT_EQ(cluster.gpus(), expected.gpus);
        EXPECT_EQ(cluster.host.numa_nodes, expected.numa_nodes);
        EXPECT_EQ(cluster.network.nics, expected.nics);
        EXPECT_EQ(cluster.gpu.memory, expected.gpu_memory);
        EXPECT_EQ(cluster.host.memory, expected.host_memory);
        EXPECT_EQ(cluster.nvlink.bandwidth.value > 0, expected.nvlink);
    }
}

// No kernel beats the board it was measured on, no collective the wire below it: a slip in a conversion would show
// here.
TEST(ShippedScenarios, RatesStayBelowTheHardware) {
    const struct {
        std::string calibration, cluster;
        double nvlink_nominal;  // GB/s, per GPU and direction
    } cases[] = {
        {"a100-published", "a100-sppo", 300},
        {"h100-published", "h100x8", 450},
        {"h200-measured", "h200x2", 450},
    };
    for (const auto& expected : cases) {
        SCOPED_TRACE(expected.calibration);
        const Calibration rates = read_shipped("calibrations", expected.calibration, read_calibration);
        const Cluster cluster = read_shipped("clusters", expected.cluster, read_cluster);
        for (const GemmPoint& point : rates.gemm) EXPECT_LT(point.rate, cluster.gpu.peak) << point.size;
        for (const AttentionPoint& point : rates.attention) {
            EXPECT_LT(point.forward, cluster.gpu.peak) << point.queries << ", " << point.keys;
            EXPECT_LT(point.backward, point.forward) << point.queries << ", " << point.keys;
        }
        EXPECT_LT(rates.pointwise, cluster.gpu.memory_bandwidth);
        for (const BandwidthPoint& point : rates.nvlink_collective)
            EXPECT_LT(point.bus_bandwidth.value, expected.nvlink_nominal * 1e9) << point.size.value;
        for (const BandwidthPoint& point : rates.network_collective)
            EXPECT_LE(point.bus_bandwidth, cluster.network.bandwidth) << point.size.value;
        EXPECT_LE(cluster.nvlink.bandwidth.value, expected.nvlink_nominal * 1e9);
    }
}

// All-gather and reduce-scatter between two H200 as they were measured, back from the table: docs/h200-sources.md.
TEST(ShippedScenarios, H200CollectivesGiveTheMeasuredTimes) {
    const struct {
        std::int64_t shard;                 // MiB each of two ranks contributes
        double all_gather, reduce_scatter;  // us
    } cases[] = {{1, 54, 58.3}, {16, 94.3, 102.9}, {64, 299.6, 316.6}, {256, 1061, 1100}, {1024, 3703, 3768}};
    const Calibration rates = read_shipped("calibrations", "h200-measured", read_calibration);
    ASSERT_EQ(rates.nvlink_collective.size(), std::size(cases));
    for (std::size_t i = 0; i < std::size(cases); ++i) {
        const BandwidthPoint& point = rates.nvlink_collective[i];
        const double shard = static_cast<double>(cases[i].shard << 20);
        EXPECT_EQ(point.size.value, cases[i].shard << 21);
        // One step, then half of the tensor over the link.
        const double priced = (rates.collective_step.value + shard / point.bus_bandwidth.value) * 1e6;
        const double measured = (cases[i].all_gather + cases[i].reduce_scatter) / 2;
        EXPECT_NEAR(priced / measured, 1, 0.005) << cases[i].shard;
    }
}

}  // namespace
}  // namespace sluice
