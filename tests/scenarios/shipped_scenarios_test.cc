// Every YAML file that is shipped reads, and the published cases are the ones that the paper names.
#include <gtest/gtest.h>

#include <filesystem>
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
    EXPECT_GE(read_all(kFolder / "clusters", read_cluster), 1U);
    EXPECT_GE(read_all(kFolder / "calibrations", read_calibration), 1U);
}

TEST(ShippedScenarios, ScenariosRead) {
    std::set<std::string> fingerprints;
    for (const auto& file : yaml_files(kFolder)) {
        const Scenario scenario = read_scenario(file);
        EXPECT_EQ(scenario.name, file.stem().string());
        EXPECT_EQ(scenario.policy.sp * scenario.policy.pp, scenario.cluster.gpus()) << file;
        fingerprints.insert(scenario.fingerprint);
    }
    EXPECT_EQ(fingerprints.size(), yaml_files(kFolder).size());  // all different
}

TEST(ShippedScenarios, ArePublishedCases) {
    const struct {
        std::string file, model;
        std::int64_t layers, hidden, sequence, gpus, sp, pp, n;
    } cases[] = {
        {"sppo-gpt7b-1m-a100x32", "gpt-7b", 32, 4096, 1 << 20, 32, 8, 4, 160},
        {"sppo-gpt7b-2m-a100x64", "gpt-7b", 32, 4096, 2 << 20, 64, 8, 8, 256},
        {"sppo-gpt7b-4m-a100x128", "gpt-7b", 32, 4096, 4 << 20, 128, 8, 16, 256},
        {"sppo-gpt65b-128k-a100x64", "gpt-65b", 80, 8192, 128 << 10, 64, 8, 8, 8},
    };
    for (const auto& expected : cases) {
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

}  // namespace
}  // namespace sluice
