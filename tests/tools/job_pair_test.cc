// sluice simulate A B: two jobs on the GPUs of one node.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "base/file.h"
#include "tests/support/golden_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

void write(const std::string& path, const std::string& text) {
    write_file(path, [&](std::ostream& out) { out << text; });
}

// One node of four toy GPUs with `host` memory keys, and a job on `gpus` of them.
class Node {
public:
    explicit Node(const std::string& host) {
        std::filesystem::create_directories(folder_ / "clusters");
        std::string text = read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios/clusters/tiny.yaml", 1_MiB);
        text = replaced(replaced(text, "nodes: 2", "nodes: 1"), "gpus_per_node: 2", "gpus_per_node: 4");
        text =
            replaced(replaced(text, "gpus_per_switch: 2", "gpus_per_switch: 1"), "memory: 220 MiB", "memory: 380 MiB");
        const std::size_t at = text.find("host: {"), end = text.find('\n', at);
        write(folder_ / "clusters/node.yaml", text.replace(at, end - at, "host: {" + host + ", source: invented}"));
    }

    // Returns the path.
    std::string job(const std::string& name, int gpus, const std::string& more = "") {
        std::string text =
            replaced(tiny_text(), "cluster: tiny", "cluster: {use: node, gpus_per_node: " + std::to_string(gpus) + "}");
        text = replaced(text, "pp: 2", "pp: " + std::to_string(gpus / 2)) + more;
        const std::string path = folder_ / (name + ".yaml");
        write(path, text);
        return path;
    }

private:
    TemporaryFolder folder_;
};

const std::string kAmple = "memory: 4 GiB, reserved: 1 GiB, numa_nodes: 1, bandwidth: 200 GB/s";

Json together(const std::string& arguments, int code) {
    const Finished got = run_sluice("simulate " + arguments + " --json");
    EXPECT_EQ(got.code, code) << got.err;
    EXPECT_EQ(got.err, "");
    return Json::parse(got.out);
}

std::string shown(const std::string& title, const Finished& got) {
    EXPECT_EQ(got.err, "") << title;
    return "# " + title + ", exit code " + std::to_string(got.code) + "\n" + got.out + "\n";
}

TEST(JobPair, WhatPeopleRead) {
    std::string text;
    {
        Node node(kAmple);
        const std::string a = node.job("first", 2), b = node.job("second", 2), large = node.job("large", 4);
        text += shown("wide DRAM", run_sluice("simulate " + a + " " + b));
        text += shown("too many GPUs", run_sluice("simulate " + a + " " + large));
    }
    {
        Node node(replaced(kAmple, "200 GB/s", "3 GB/s"));
        const std::string a = node.job("first", 2), b = node.job("second", 2);
        text += shown("narrow DRAM", run_sluice("simulate " + a + " " + b));
        text += shown("narrow DRAM, 50%", run_sluice("simulate " + a + " " + b + " --max-slowdown 50%"));
    }
    {
        Node node(replaced(kAmple, "reserved: 1 GiB", "reserved: 3900 MiB"));
        const std::string a = node.job("first", 2), b = node.job("second", 2);
        text += shown("little host memory", run_sluice("simulate " + a + " " + b));
    }
    expect_golden("tools/job_pair.txt", text);
}

TEST(JobPair, JsonHasTheSame) {
    Node node(replaced(kAmple, "200 GB/s", "3 GB/s"));
    const std::string a = node.job("first", 2), b = node.job("second", 2);
    const Json json = together(a + " " + b, 1);
    EXPECT_EQ(json["accepted"], false);
    EXPECT_EQ(json["reasons"].size(), 2U) << "both are slowed";
    EXPECT_EQ(json["max_slowdown"], 0.05);
    EXPECT_EQ(json["gpus_per_node"], 4);
    ASSERT_EQ(json["jobs"].size(), 2U);
    EXPECT_EQ(json["jobs"][0]["gpus_of_node"], (std::vector<int>{0, 1}));
    EXPECT_EQ(json["jobs"][1]["gpus_of_node"], (std::vector<int>{2, 3}));
    for (const Json& job : json["jobs"]) {
        const double alone = job["step_alone_seconds"], both = job["step_together_seconds"];
        EXPECT_GT(both, alone);
        EXPECT_DOUBLE_EQ(job["slowdown"].get<double>(), both / alone - 1);
        EXPECT_GE(job["steps"], 2);
        EXPECT_GE(job["exposed_d2h_together_seconds"], job["exposed_d2h_alone_seconds"]);
        EXPECT_GT(job["peak_host_bytes_per_numa"][0], 0);
    }
    EXPECT_EQ(together(a + " " + b + " --max-slowdown 1000%", 0)["accepted"], true);
}

// What a job gets beside another is at most what it gets alone, and half the node is what the scenario says.
TEST(JobPair, AloneIsTheScenarioByItself) {
    Node node(kAmple);
    const std::string a = node.job("first", 2);
    const double alone = together(a + " " + a, 0)["jobs"][0]["step_alone_seconds"];
    EXPECT_DOUBLE_EQ(alone, together(a, 0)["step_seconds"].get<double>());
}

TEST(JobPair, DifferentNodesAreWrongInput) {
    Node node(kAmple);
    const std::string a = node.job("first", 2);
    const Finished other = run_sluice("simulate " + a + " scenarios/tiny.yaml");
    EXPECT_EQ(other.code, 2);
    EXPECT_EQ(
        other.err,
        "sluice simulate: first and tiny are not on nodes of one kind: cluster node and cluster tiny differ in GPUs "
        "of a node (4 and 2)\n");
    const std::string loaded = node.job("loaded", 2, "other_job: {host_memory: 1 GiB}\n");
    const Finished load = run_sluice("simulate " + a + " " + loaded);
    EXPECT_EQ(load.code, 2);
    EXPECT_NE(load.err.find("differ in host (memory, or what another job takes of it)"), std::string::npos) << load.err;
}

}  // namespace
}  // namespace sluice
