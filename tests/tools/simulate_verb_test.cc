// sluice simulate: the machine-readable summary is a contract, so its keys are listed here once more.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using Names = std::set<std::string>;

const Names kNumbers{"step_seconds",
                     "tokens_per_second",
                     "tokens_per_gpu_second",
                     "mfu",
                     "bubble_fraction",
                     "bubble_over_work",
                     "exposed_d2h_seconds",
                     "exposed_h2d_seconds",
                     "exposed_comm_seconds",
                     "gpu_beyond_arena_bytes",
                     "peak_gpu_bytes",
                     "peak_gpu_rank",
                     "peak_host_bytes_per_node",
                     "offloaded_bytes",
                     "ops",
                     "activities"};
const Names kOthers{"feasible",    "reasons",      "peak_gpu_kinds", "peak_host_bytes_per_numa",
                    "pin_seconds", "wall_seconds", "plan",           "notes"};

Names keys(const Json& object) {
    Names found;
    for (const auto& item : object.items()) found.insert(item.key());
    return found;
}

Names all_keys() {
    Names all = kNumbers;
    all.insert(kOthers.begin(), kOthers.end());
    return all;
}

Json simulate_json(const std::string& arguments, int code = 0) {
    const Finished got = run_sluice("simulate " + arguments + " --json");
    EXPECT_EQ(got.code, code) << arguments << "\n" << got.err;
    EXPECT_EQ(got.err, "") << arguments;
    return Json::parse(got.out);
}

TEST(SimulateVerb, JsonHasTheKeysOfTheContract) {
    const Json json = simulate_json("scenarios/tiny.yaml");
    EXPECT_EQ(keys(json), all_keys());
    EXPECT_EQ(json["feasible"], true);
    EXPECT_EQ(json["reasons"], Json::array());
    for (const std::string& key : kNumbers) {
        EXPECT_TRUE(json[key].is_number()) << key;
        EXPECT_GE(json[key].get<double>(), 0) << key;
    }
    EXPECT_EQ(keys(json["wall_seconds"]), (Names{"lower", "verify", "replay"}));
    for (const auto& item : json["wall_seconds"].items()) EXPECT_TRUE(item.value() > 0) << item.key();
    EXPECT_EQ(keys(json["plan"]), (Names{"sp", "sp_kind", "pp", "dp", "n", "lengths", "alpha", "recompute",
                                         "recomputed_layers", "kv_offloaded_layers"}));
}

TEST(SimulateVerb, NumbersOfTheSummaryAgreeWithOneAnother) {
    const Json json = simulate_json("scenarios/tiny.yaml");
    const double step = json["step_seconds"];
    EXPECT_GT(step, 0);
    EXPECT_DOUBLE_EQ(json["tokens_per_second"].get<double>(), 16384 / step);
    EXPECT_DOUBLE_EQ(json["tokens_per_gpu_second"].get<double>(), 16384 / step / 4);
    EXPECT_GT(json["mfu"].get<double>(), 0);
    EXPECT_LT(json["mfu"].get<double>(), 1);
    // the same seconds, against the whole step and against the work alone
    EXPECT_LT(json["bubble_fraction"].get<double>(), json["bubble_over_work"].get<double>());
    EXPECT_LT(json["exposed_d2h_seconds"].get<double>() + json["exposed_h2d_seconds"].get<double>() +
                  json["exposed_comm_seconds"].get<double>(),
              step);

    std::int64_t sum = 0;
    for (const auto& item : json["peak_gpu_kinds"].items()) sum += item.value().get<std::int64_t>();
    EXPECT_EQ(json["peak_gpu_bytes"].get<std::int64_t>(), sum);
    EXPECT_LT(json["peak_gpu_rank"].get<int>(), 4);
    // what is offloaded passes through pinned memory of one of two nodes, once per step
    EXPECT_GT(json["offloaded_bytes"].get<std::int64_t>(), 0);
    EXPECT_LE(json["peak_host_bytes_per_node"].get<std::int64_t>(), json["offloaded_bytes"].get<std::int64_t>());
    EXPECT_GE(2 * json["peak_host_bytes_per_node"].get<std::int64_t>(), json["offloaded_bytes"].get<std::int64_t>());
}

TEST(SimulateVerb, PlanSaysWhatWasDecided) {
    const Json plan = simulate_json("scenarios/tiny.yaml")["plan"];
    EXPECT_EQ(plan["sp"], 2);
    EXPECT_EQ(plan["sp_kind"], "megatron");
    EXPECT_EQ(plan["pp"], 2);
    EXPECT_EQ(plan["dp"], 1);
    EXPECT_EQ(plan["n"], 8);
    ASSERT_EQ(plan["lengths"].size(), 8U);
    std::int64_t tokens = 0;
    for (const Json& length : plan["lengths"]) tokens += length.get<std::int64_t>();
    EXPECT_EQ(tokens, 16384);
    ASSERT_EQ(plan["alpha"].size(), 2U);  // a row per stage
    for (const Json& row : plan["alpha"]) {
        ASSERT_EQ(row.size(), 8U);
        for (const Json& alpha : row) EXPECT_TRUE(alpha >= 0 && alpha <= 1) << alpha;
        EXPECT_EQ(row.back(), 0) << "the copy of the last subsequence has no window";
    }
}

// The exchanges of Ulysses take NVLink inside a node and adapters between nodes.
TEST(SimulateVerb, UlyssesExchangesOverTheLinksItHas) {
    const TemporaryFolder folder;
    const auto simulated = [&](const std::string& nodes) {
        std::string text =
            replaced(tiny_text(), "cluster: tiny", "cluster: {use: tiny, gpu_memory: 2 GiB, " + nodes + "}");
        text = replaced(text, "{kind: megatron, degree: 2}", "{kind: ulysses, degree: 4}");
        return simulate_json(write_scenario(folder, replaced(text, "pp: 2", "pp: 1")));
    };
    const Json one = simulated("nodes: 1, gpus_per_node: 4"), two = simulated("nodes: 2, gpus_per_node: 2");
    EXPECT_EQ(one["plan"]["sp_kind"], "ulysses");
    EXPECT_GT(one["exposed_comm_seconds"].get<double>(), 0);
    EXPECT_GT(two["exposed_comm_seconds"].get<double>(), one["exposed_comm_seconds"].get<double>());
}

TEST(SimulateVerb, LittleMemoryIsAnAnswerNotAnError) {
    const TemporaryFolder folder;
    const std::string path =
        write_scenario(folder, replaced(tiny_text(), "cluster: tiny", "cluster: {use: tiny, gpu_memory: 60 MiB}"));
    const Json json = simulate_json(path, 1);
    EXPECT_EQ(keys(json), all_keys());
    EXPECT_EQ(json["feasible"], false);
    for (const std::string& key : kNumbers) EXPECT_TRUE(json[key].is_null()) << key << " " << json[key];
    EXPECT_TRUE(json["peak_gpu_kinds"].is_null());
    ASSERT_FALSE(json["reasons"].empty());
    // names the limit, a kind that is too large and where
    const std::string reasons = json["reasons"].dump();
    EXPECT_NE(reasons.find("52.0 MiB"), std::string::npos) << reasons;
    EXPECT_NE(reasons.find("optimizer"), std::string::npos) << reasons;
    EXPECT_NE(reasons.find("ranks 0-1 (stage 0)"), std::string::npos) << reasons;

    const Finished text = run_sluice("simulate " + path);
    EXPECT_EQ(text.code, 1);
    EXPECT_NE(text.out.find("does not fit"), std::string::npos) << text.out;
    for (const Json& reason : json["reasons"])
        EXPECT_NE(text.out.find(reason.get<std::string>()), std::string::npos) << text.out;

    const Finished lowered = run_sluice("lower " + path + " -o " + (folder / "x.txt"));
    EXPECT_EQ(lowered.code, 1);
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"derived.yaml"}));
}

Json two_numa_nodes(const TemporaryFolder& folder, const std::string& host, int code = 0,
                    const std::string& memory = "4 GiB") {
    std::string cluster = read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios/clusters/tiny.yaml", 1_MiB);
    cluster = replaced(replaced(cluster, "numa_nodes: 1", "numa_nodes: 2, " + host), "gpus_per_switch: 2",
                       "gpus_per_switch: 1");
    cluster = replaced(cluster, "memory: 4 GiB", "memory: " + memory);
    std::filesystem::create_directories(folder / "clusters");
    write_file(folder / "clusters/split.yaml", [&](std::ostream& out) { out << cluster; });
    return simulate_json(write_scenario(folder, replaced(tiny_text(), "cluster: tiny", "cluster: split")), code);
}

// Two ranks of a stage pin the same bytes, one on each NUMA node of a node of two GPUs.
TEST(SimulateVerb, PinnedBytesByNumaNode) {
    const TemporaryFolder folder;
    const Json local = two_numa_nodes(folder, "pin_rate: 1 GB/s");
    const std::int64_t node = local["peak_host_bytes_per_node"];
    EXPECT_GT(node, 0);
    EXPECT_EQ(local["peak_host_bytes_per_numa"], (std::vector<std::int64_t>{node / 2, node / 2}));
    EXPECT_DOUBLE_EQ(local["pin_seconds"].get<double>(), static_cast<double>(node) / 2 / 1e9);
    const Json first = two_numa_nodes(folder, "numa: first, cross_bandwidth: 1 GB/s");
    EXPECT_EQ(first["peak_host_bytes_per_numa"][1], 0);
    EXPECT_TRUE(first["pin_seconds"].is_null()) << "no rate given";
    EXPECT_GT(first["step_seconds"], local["step_seconds"]);
    const Json rounded = two_numa_nodes(folder, "allocator: power_of_two");
    EXPECT_GT(rounded["peak_host_bytes_per_node"], node);
    EXPECT_EQ(rounded["step_seconds"], local["step_seconds"]) << "bytes, not times";
    const Json spread = two_numa_nodes(folder, "numa: interleave, cross_bandwidth: 1 GB/s");
    EXPECT_GT(spread["step_seconds"], local["step_seconds"]);
    EXPECT_LT(spread["step_seconds"], first["step_seconds"]);
}

TEST(SimulateVerb, LittleMemoryOfANumaNodeIsAnAnswer) {
    const TemporaryFolder folder;
    const Json json = two_numa_nodes(folder, "numa: local", 1, "1104 MiB");  // 80 MiB of it for jobs
    EXPECT_EQ(json["feasible"], false);
    const std::string reasons = json["reasons"].dump();
    EXPECT_NE(reasons.find("node 0, NUMA node 1: "), std::string::npos) << reasons;
    EXPECT_NE(reasons.find("of rank 1, 40.0 MiB usable"), std::string::npos) << reasons;
}

TEST(SimulateVerb, AnotherJobIsCapacityRemoved) {
    const TemporaryFolder folder;
    const std::string loaded = tiny_text() + "other_job: {host_memory: 1 GiB, d2h: 17 GB/s, h2d: 20 GB/s}\n";
    const std::string path = write_scenario(folder, loaded);
    const Json shared = simulate_json(path);
    EXPECT_NE(run_sluice("simulate " + path).out.find("other job        holds 1.00 GiB of every node"),
              std::string::npos);
    std::string cluster = read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios/clusters/tiny.yaml", 1_MiB);
    cluster = replaced(replaced(cluster, "memory: 4 GiB", "memory: 3 GiB"), "bandwidth: 40 GB/s", "bandwidth: 3 GB/s");
    std::filesystem::create_directories(folder / "clusters");
    write_file(folder / "clusters/less.yaml", [&](std::ostream& out) { out << cluster; });
    const Json less = simulate_json(write_scenario(folder, replaced(tiny_text(), "cluster: tiny", "cluster: less")));
    for (const std::string& key : kNumbers) EXPECT_EQ(shared[key], less[key]) << key;
    EXPECT_EQ(shared["plan"], less["plan"]);
    EXPECT_GT(shared["step_seconds"], simulate_json("scenarios/tiny.yaml")["step_seconds"]);
}

TEST(SimulateVerb, AmpleMemoryMovesNothing) {
    const TemporaryFolder folder;
    const std::string path =
        write_scenario(folder, replaced(tiny_text(), "cluster: tiny", "cluster: {use: tiny, gpu_memory: 8 GiB}"));
    const Json json = simulate_json(path);
    EXPECT_EQ(json["offloaded_bytes"], 0);
    EXPECT_EQ(json["peak_host_bytes_per_node"], 0);
    for (const Json& row : json["plan"]["alpha"])
        for (const Json& alpha : row) EXPECT_EQ(alpha, 0);
    EXPECT_EQ(json["exposed_d2h_seconds"], 0);
    EXPECT_EQ(json["exposed_h2d_seconds"], 0);
}

TEST(SimulateVerb, TextSaysTheSameForPeople) {
    const Finished got = run_sluice("simulate scenarios/tiny.yaml");
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, "") << "no progress in a pipe";
    for (const char* part : {"tiny", "16384 tokens", "step ", "tokens/s", "MFU", "bubble", "GPU memory", "host memory",
                             "offloaded", "alpha", "ops"})
        EXPECT_NE(got.out.find(part), std::string::npos) << part << "\n" << got.out;
    EXPECT_EQ(got.out.find("nan"), std::string::npos) << got.out;
}

TEST(SimulateVerb, ProgressIsShownOnATerminalAndCleared) {
    if (!terminals_exist()) GTEST_SKIP() << "no terminal can be opened here";
    const Finished got = run_sluice("simulate scenarios/tiny.yaml", {.terminal = true});
    EXPECT_EQ(got.code, 0);
    EXPECT_NE(got.err.find("lower"), std::string::npos);
    EXPECT_NE(got.err.find("verify"), std::string::npos);
    EXPECT_EQ(got.err.find('\n'), std::string::npos) << "one line, rewritten in place";
    EXPECT_TRUE(got.err.ends_with("\r\x1b[K")) << "nothing of it stays";
}

TEST(SimulateVerb, ScheduleFromAFileTakesTheSameStep) {
    const TemporaryFolder folder;
    const Json whole = simulate_json("scenarios/tiny.yaml");
    for (const std::string name : {"x.txt", "x.schedule"}) {
        ASSERT_EQ(run_sluice("lower scenarios/tiny.yaml -o " + (folder / name)).code, 0);
        const Json given = simulate_json("scenarios/tiny.yaml --schedule " + (folder / name));
        for (const std::string& key : kNumbers) EXPECT_EQ(given[key], whole[key]) << name << " " << key;
        EXPECT_EQ(given["peak_gpu_kinds"], whole["peak_gpu_kinds"]);
        EXPECT_EQ(given["plan"]["alpha"], Json::array()) << "a schedule has no plan";
        EXPECT_EQ(given["notes"].size(), 1U);
    }
}

TEST(SimulateVerb, BrokenScheduleFromAFileIsRefusedWithItsRules) {
    const std::string arguments = "scenarios/tiny.yaml --schedule tests/golden/invalid/overlap.txt";
    const Json json = simulate_json(arguments, 1);
    EXPECT_EQ(json["feasible"], false);
    ASSERT_EQ(json["reasons"].size(), 1U);
    EXPECT_TRUE(json["reasons"][0].get<std::string>().starts_with("overlap: op ")) << json["reasons"];
    EXPECT_TRUE(json["step_seconds"].is_null());

    const Finished text = run_sluice("simulate " + arguments);
    EXPECT_EQ(text.code, 1);
    EXPECT_EQ(text.out, "");
    EXPECT_EQ(text.err, json["reasons"][0].get<std::string>() + "\n");
}

TEST(SimulateVerb, ScheduleWithMoreRanksThanGpusIsWrongInput) {
    const TemporaryFolder folder;
    const std::string one_node = write_scenario(
        folder, replaced(replaced(tiny_text(), "cluster: tiny", "cluster: {use: tiny, nodes: 1}"), "pp: 2", "pp: 1"));
    const Finished got = run_sluice("simulate " + one_node + " --schedule tests/golden/schedules/multiplexed.txt");
    EXPECT_EQ(run_sluice("simulate " + one_node + " --schedule tests/golden/sim/all_gather.txt").code, 2);
    EXPECT_EQ(got.code, 0) << got.err;  // two ranks on two GPUs
}

}  // namespace
}  // namespace sluice
