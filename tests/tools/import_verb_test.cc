// `sluice profile --import`, as a user runs it. The figures of tests/golden/link_measurements are made up.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "scenarios/read_machine_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

const std::filesystem::path kSource = SLUICE_SOURCE_DIR;
const std::string kMeasured = "tests/golden/link_measurements/";
const std::string kBases =
    " --calibration scenarios/calibrations/h100-published.yaml --cluster scenarios/clusters/h100x8.yaml";

// The line of docs/profile.md that begins so, its files in this folder.
std::vector<std::string> documented(const std::string& begin, const TemporaryFolder& folder) {
    const std::string text = read_file(kSource / "docs" / "profile.md", 1_MiB);
    const std::size_t at = text.find("\n    sluice " + begin);
    EXPECT_NE(at, text.npos) << begin;
    std::istringstream line(text.substr(at + 5, text.find('\n', at + 1) - at - 5));
    std::string word;
    line >> word;
    std::vector<std::string> words;
    while (line >> word) words.push_back(word.find('.') == word.npos ? word : folder / word);
    return words;
}

TEST(ImportVerb, TheDocumentedWayFromMeasurementsToAPrediction) {
    const TemporaryFolder folder;
    for (const char* part : {"calibrations", "clusters"}) std::filesystem::create_directory(folder.path() / part);
    const std::pair<std::string, std::string> files[] = {
        {kMeasured + "all_gather_h100x8.txt", "all_gather.txt"},
        {kMeasured + "reduce_scatter_h100x8.json", "reduce_scatter.json"},
        {kMeasured + "all_reduce_h100x8.txt", "all_reduce.txt"},
        {kMeasured + "sendrecv_h100x8.txt", "sendrecv.txt"},
        {kMeasured + "nvbandwidth_h100x8.json", "nvbandwidth.json"},
        {"scenarios/calibrations/h100-published.yaml", "h100-published.yaml"},
        {"scenarios/clusters/h100x8.yaml", "h100x8.yaml"}};
    for (const auto& [from, to] : files) std::filesystem::copy_file(kSource / from, folder.path() / to);
    std::ofstream(folder / "mine.yaml")
        << "model: llama3-8b\ncluster: mine\ncalibration: mine\nsequence: 64 Ki tokens\n"
           "policy: {sp: {kind: megatron, degree: 8}, pp: 1, n: 4}\n";
    const Finished imported = run_sluice(documented("profile --import", folder));
    ASSERT_EQ(imported.code, 0) << imported.err;
    EXPECT_NE(imported.out.find("all_gather_perf          8      1    1.00 KiB ... 1.00 GiB"), std::string::npos)
        << imported.out;
    for (const char* file : {"calibrations/mine.yaml", "clusters/mine.yaml"}) {
        const std::string text = read_file(folder.path() / file, 1_MiB);
        EXPECT_NE(text.find("measured on 2026-11-30"), text.npos) << text;
        EXPECT_NE(text.find("fingerprint "), text.npos) << text;
        for (const char* secret : {"node-0", "a-secret", "API_KEY", "somebody", "0000:08:00"})
            EXPECT_EQ(text.find(secret), text.npos) << secret;
    }
    const Finished simulated = run_sluice(documented("simulate mine.yaml", folder));
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    EXPECT_NE(simulated.out.find("on mine"), std::string::npos) << simulated.out;
}

TEST(ImportVerb, ChangesWhatWasMeasuredAndNothingElse) {
    const TemporaryFolder folder;
    const Finished got =
        run_sluice("profile --json --import " + kMeasured + "all_gather_h100x8.txt " + kMeasured +
                   "sendrecv_h100x8.txt " + kMeasured + "nvbandwidth_h100x8.txt" + kBases + " --out-calibration " +
                   (folder / "c.yaml") + " --out-cluster " + (folder / "k.yaml"));
    ASSERT_EQ(got.code, 0) << got.err;
    Calibration before = read_calibration_file(kSource / "scenarios/calibrations/h100-published.yaml");
    Calibration after = read_calibration_file(folder / "c.yaml");
    ASSERT_EQ(after.nvlink_collective.size(), 11U);
    EXPECT_NEAR(after.collective_step.value, 37.38e-6 / 7, 1e-8);
    EXPECT_EQ(after.network_collective, before.network_collective);
    EXPECT_EQ(after.gemm.size(), before.gemm.size());
    EXPECT_EQ(after.interference, before.interference);
    const Cluster was = read_cluster_file(kSource / "scenarios/clusters/h100x8.yaml");
    const Cluster is = read_cluster_file(folder / "k.yaml");
    EXPECT_NEAR(is.pcie.d2h.value, 55.56e9, 1e7);
    EXPECT_NEAR(is.pcie.duplex.value, (51.16 + 46.55) * 1e9, 1e8);
    EXPECT_EQ(is.pcie.latency, was.pcie.latency);
    EXPECT_NEAR(is.nvlink.bandwidth.value, 350e9, 1e9);  // of sendrecv_perf, not of nvbandwidth
    EXPECT_EQ(is.network, was.network);
    EXPECT_EQ(is.gpu, was.gpu);
    const auto json = nlohmann::json::parse(got.out);
    EXPECT_EQ(json["runs"][0]["program"], "all_gather_perf");
    EXPECT_LT(json["runs"][0]["error_p90_absolute"], 0.06);
    EXPECT_LT(json["runs"][1]["error_p90_absolute"], 0.01);
    EXPECT_EQ(json["sources"].size(), 3U);
    EXPECT_EQ(json["transfer_between_nodes"], nullptr);
}

TEST(ImportVerb, BetweenNodesRatesAreThoseOfAnAdapter) {
    const TemporaryFolder folder;
    const std::string file = "all_gather_perf=" + kMeasured + "all_gather_2nodes_old.txt";
    const Finished got = run_sluice("profile --import " + file + kBases + " --out-calibration " + (folder / "c.yaml"));
    ASSERT_EQ(got.code, 0) << got.err;
    const Calibration found = read_calibration_file(folder / "c.yaml");
    // 330.8 GB/s of a node with 8 adapters, and what the steps take of 3.04 ms
    EXPECT_NEAR(found.network_collective.back().bus_bandwidth.value, 330.8e9 / 8 * 3042.74 / (3042.74 - 82.24), 2e8);
    EXPECT_EQ(run_sluice("profile --import " + file).err,
              kMeasured +
                  "all_gather_2nodes_old.txt: its ranks are on 2 hosts, expected --cluster FILE with a network: "
                  "rates between nodes are given by adapter\n");
}

TEST(ImportVerb, RefusesWhatItCannotDo) {
    const TemporaryFolder folder;
    const std::string gathered = kMeasured + "all_gather_h100x8.txt", links = kMeasured + "nvbandwidth_h100x8.txt";
    const std::string out = folder / "out.yaml";
    const std::pair<std::string, std::string> cases[] = {
        {"--import", "--import: got no file"},
        {"--import " + gathered + " --out-calibration " + out, "expected --calibration FILE with --import"},
        {"--import " + gathered + " --out-cluster " + out, "expected --cluster FILE with --import"},
        {"--import " + links + kBases + " --out-calibration " + out, "the files have nothing for it"},
        {"--import " + gathered + " --cluster scenarios/clusters/h100x8.yaml --out-cluster " + out,
         "the files have nothing for it"},
        {"--import " + gathered + " --cluster scenarios/clusters/h200x2.yaml",
         "got 8 ranks on one host, expected at most 2, the GPUs of a node of cluster h200x2"},
        {"--import " + links + " --cluster scenarios/clusters/h200x2.yaml", "got 8 GPUs, expected at most 2"},
        {"--import broadcast_perf=" + gathered, "got 'broadcast_perf' before '='"},
        {"--import docs/profile.md", "docs/profile.md:"},
        {"--import scenarios/tiny.yaml", "scenarios/tiny.yaml:"},
        {"--import no-such-file", "no-such-file"},
        {gathered, "unexpected '" + gathered + "' without --import"},
        {"--date 2026-11-30", "--date: is for --import alone"},
    };
    for (const auto& [arguments, message] : cases) {
        const Finished got = run_sluice("profile " + arguments);
        EXPECT_EQ(got.code, 2) << arguments;
        EXPECT_NE(got.err.find(message), std::string::npos) << arguments << "\n" << got.err;
        EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
        EXPECT_FALSE(std::filesystem::exists(out));
    }
}

}  // namespace
}  // namespace sluice
