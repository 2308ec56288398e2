#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <locale>
#include <set>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/policy_names.h"
#include "scenarios/scenario.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

const std::filesystem::path kValid = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/scenarios/valid";
const std::filesystem::path kShipped = std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios";

TEST(ReadScenario, EveryKeyArrives) {
    const Scenario s = read_scenario(kValid / "everything.yaml");
    EXPECT_EQ(s.name, "every.key_1");
    EXPECT_EQ(s.sequence, Tokens{3072});
    EXPECT_EQ(s.batch, 2);
    EXPECT_EQ(s.precision.weights, DataType::kFp32);
    EXPECT_EQ(s.precision.gradients, DataType::kBf16);
    EXPECT_EQ(s.precision.kv_gradients, DataType::kBf16);
    EXPECT_EQ(s.policy.sp_kind, SequenceParallelKind::kMegatron);
    EXPECT_EQ(s.policy.sp, 2);
    EXPECT_EQ(s.policy.pp, 2);
    EXPECT_EQ(s.policy.n, 3);
    EXPECT_EQ(s.policy.partition.kind, PartitionKind::kList);
    EXPECT_EQ(s.policy.partition.lengths, (std::vector<Tokens>{Tokens{1536}, Tokens{1024}, Tokens{512}}));
    EXPECT_EQ(s.policy.partition.alignment, Tokens{256});
    EXPECT_EQ(std::get<OffloadRatio>(s.policy.placement).alpha, 0.25);
    EXPECT_EQ(s.policy.granularity, Granularity::kLayer);
    EXPECT_EQ(s.policy.inventory, Inventory::kPaper);
}

// Ulysses shares out heads alone: widths and a vocabulary that are primes are no matter.
TEST(ReadScenario, UlyssesArrives) {
    const Scenario s = parse_scenario(
        "model: {layers: 4, hidden: 251, heads: 8, kv_heads: 4, head_dim: 32, ffn: 1021, vocabulary: 50257, "
        "activation: gelu, norm: layernorm, positions: rope, bias: true, tied_embeddings: true}\n"
        "cluster: tiny\ncalibration: tiny\nsequence: 16 Ki tokens\n"
        "policy: {sp: {kind: ulysses, degree: 4}, pp: 1, n: 8}\n",
        "test", kShipped);
    EXPECT_EQ(s.policy.sp_kind, SequenceParallelKind::kUlysses);
    EXPECT_EQ(s.policy.partition.alignment, Tokens{4});
    EXPECT_TRUE(s.ulysses());
    EXPECT_EQ(s.weight_shards(), 1);
    EXPECT_FALSE(s.saves_gathered());
}

TEST(ReadScenario, ReplicasAndStagesArrive) {
    const auto parse = [](const std::string& policy) {
        return parse_scenario(
                   "model: tiny\ncluster: tiny\ncalibration: tiny\nsequence: 16 Ki tokens\n"
                   "batch: 4 sequences\npolicy:\n  n: 8\n" +
                       policy,
                   "test", kShipped)
            .policy;
    };
    const Policy fixed = parse("  sp: {degree: 1}\n  pp: 2\n  dp: 2\n  zero: 2\n  stages: [3, 1]\n");
    EXPECT_EQ(fixed.dp, 2);
    EXPECT_EQ(fixed.zero, ZeroStage::kGradients);
    EXPECT_EQ(fixed.stage_layers, (std::vector<std::int64_t>{3, 1}));
    EXPECT_FALSE(fixed.automatic.any());
    const Policy open = parse("  sp: {degree: 1}\n  pp: 2\n  dp: auto\n  zero: auto\n");
    EXPECT_TRUE(open.automatic.dp && open.automatic.zero && !open.automatic.sp);
    EXPECT_EQ(parse("  sp: {degree: 1}\n  pp: auto\n  dp: auto\n  zero: 3\n").zero, ZeroStage::kParameters);
    const Policy plain = parse("  sp: {degree: 2}\n  pp: 2\n");
    EXPECT_EQ(plain.dp, 1);
    EXPECT_EQ(plain.zero, ZeroStage::kNone);
}

TEST(ReadScenario, EveryArchitectureKeyArrives) {
    const Architecture a = read_scenario(kValid / "everything.yaml").model;
    EXPECT_EQ(a.name, "wide-model");
    EXPECT_EQ(a.layers, 3);
    EXPECT_EQ(a.hidden, 96);
    EXPECT_EQ(a.heads, 4);
    EXPECT_EQ(a.kv_heads, 2);
    EXPECT_EQ(a.head_dim, 32);
    EXPECT_EQ(a.ffn, 200);
    EXPECT_EQ(a.vocabulary, 1000);
    EXPECT_EQ(a.activation, ActivationFunction::kSwiglu);
    EXPECT_EQ(a.norm, Norm::kRmsNorm);
    EXPECT_EQ(a.positions, Positions::kRope);
    EXPECT_FALSE(a.bias);
    EXPECT_FALSE(a.tied_embeddings);
    EXPECT_EQ(a.rope_theta, 500000);
    EXPECT_EQ(a.norm_epsilon, 2.5e-6);
    const Architecture plain = read_scenario(kValid / "defaults.yaml").model;
    EXPECT_EQ(plain.rope_theta, 10000);
    EXPECT_EQ(plain.norm_epsilon, 1e-5);
}

TEST(ReadScenario, EveryClusterKeyArrives) {
    const RunTerms run = read_scenario(kValid / "everything.yaml").run;
    EXPECT_EQ(run.storage_rate, BytesPerSecond{2e9});
    EXPECT_EQ(run.checkpoint_interval, Seconds{1800});
    EXPECT_EQ(run.mtbf_per_gpu, Seconds{40000.0 * 3600});
    EXPECT_EQ(run.restart, Seconds{300});
    EXPECT_EQ(run.startup, Seconds{90});
    EXPECT_EQ(run.pin_rate, BytesPerSecond{3e9});
    const Cluster c = read_scenario(kValid / "everything.yaml").cluster;
    EXPECT_EQ(c.name, "small");
    EXPECT_EQ(c.nodes, 1);                           // replaced: 3 in the file
    EXPECT_EQ(c.gpus_per_node, 4);                   // replaced: 8
    EXPECT_EQ(c.spare_gpus, 4);
    EXPECT_EQ(c.gpu.memory, 2_GiB);                  // replaced: 1 GiB
    EXPECT_EQ(c.host.memory, Bytes{9'000'000'000});  // replaced: 64 GiB
    EXPECT_EQ(c.gpu.name, "toy GPU 1");
    EXPECT_EQ(c.gpu.reserved, 128_MiB);
    EXPECT_EQ(c.gpu.reserved_per_token, 24_B);
    EXPECT_EQ(c.gpu.reserved_per_pinned_gib, 2_MiB);
    EXPECT_EQ(c.gpu.margin, 16_MiB);
    EXPECT_EQ(c.gpu.usable(), 2_GiB - 144_MiB);
    EXPECT_EQ(c.gpu.peak, FlopsPerSecond{1e14});
    EXPECT_EQ(c.gpu.memory_bandwidth, BytesPerSecond{1.5e12});
    EXPECT_EQ(c.pcie.d2h, BytesPerSecond{25e9});
    EXPECT_EQ(c.pcie.h2d, BytesPerSecond{24.8e9});
    EXPECT_EQ(c.pcie.duplex, BytesPerSecond{40e9});
    EXPECT_EQ(c.pcie.latency, Seconds{5e-6});
    EXPECT_EQ(c.pcie.gpus_per_switch, 2);
    EXPECT_EQ(c.pcie.switch_d2h, BytesPerSecond{26e9});
    EXPECT_EQ(c.pcie.switch_h2d, BytesPerSecond{27e9});
    EXPECT_EQ(c.host.reserved, 3_GiB);  // 2 GiB of it the other job's
    EXPECT_EQ(c.host.numa_nodes, 2);
    EXPECT_EQ(c.host.bandwidth, BytesPerSecond{75e9});  // 100 in the file, 25 taken by the other job
    EXPECT_EQ(c.host.numa, NumaPlacement::kInterleave);     // replaced: first
    EXPECT_EQ(c.host.allocator, HostAllocator::kExact);     // replaced: power_of_two
    EXPECT_EQ(c.host.cross_bandwidth, BytesPerSecond{35e9});  // replaced: 30
    EXPECT_EQ(c.host.pin_rate, BytesPerSecond{1.4 * 1024 * 1024 * 1024});
    EXPECT_EQ(c.nvlink.bandwidth, BytesPerSecond{300e9});
    EXPECT_EQ(c.nvlink.latency, Seconds{800e-9});
    EXPECT_EQ(c.network.nics, 4);
    EXPECT_EQ(c.network.bandwidth, BytesPerSecond{12.5e9});
    EXPECT_EQ(c.network.latency, Seconds{2e-6});
    EXPECT_FALSE(c.network.nic_shares_gpu_pcie);
}

// The keys of host: without their replacements.
TEST(ReadScenario, HostKeysOfAClusterFileArrive) {
    std::string text = read_file(kValid / "everything.yaml", 1_MiB);
    for (const std::string line : {"  host_numa: interleave\n", "  host_allocator: exact\n"})
        text.erase(text.find(line), line.size());
    const HostMemory host = parse_scenario(text, "x.yaml", kValid).cluster.host;
    EXPECT_EQ(host.numa, NumaPlacement::kFirst);
    EXPECT_EQ(host.allocator, HostAllocator::kPowerOfTwo);
}

// Half of a node whose GPUs have an adapter each.
TEST(ReadScenario, PartOfANodeKeepsItsAdapters) {
    std::string text = read_file(kShipped / "tiny.yaml", 1_MiB);
    const std::string whole = "cluster: tiny", part = "cluster: {use: h100x8, gpus_per_node: 4}";
    const Scenario s = parse_scenario(text.replace(text.find(whole), whole.size(), part), "x.yaml", kShipped);
    EXPECT_EQ(s.cluster.gpus_per_node, 4);
    EXPECT_EQ(s.cluster.spare_gpus, 4);
    EXPECT_EQ(s.cluster.network.nics, 8);
}

// The same as a node that has so much less.
TEST(ReadScenario, AnotherJobIsCapacityRemoved) {
    const std::string text = read_file(kShipped / "tiny.yaml", 1_MiB);
    Scenario shared = parse_scenario(text + "other_job: {host_memory: 1 GiB, d2h: 5 GB/s, h2d: 7 GB/s}\n", "x.yaml",
                                     kShipped);
    Scenario less = parse_scenario(text, "x.yaml", kShipped);
    EXPECT_EQ(shared.other_job.host_memory, 1_GiB);
    EXPECT_EQ(shared.other_job.d2h, BytesPerSecond{5e9});
    EXPECT_EQ(shared.other_job.h2d, BytesPerSecond{7e9});
    EXPECT_NE(shared.cluster.host, less.cluster.host);
    less.cluster.host.memory -= 1_GiB;
    less.cluster.host.bandwidth -= BytesPerSecond{12e9};
    EXPECT_EQ(shared.cluster.host.usable(), less.cluster.host.usable());
    EXPECT_EQ(shared.cluster.host.usable_per_numa(), less.cluster.host.usable_per_numa());
    EXPECT_EQ(shared.cluster.host.bandwidth, less.cluster.host.bandwidth);
}

TEST(ReadScenario, EveryCalibrationKeyArrives) {
    const Calibration c = read_scenario(kValid / "everything.yaml").calibration;
    EXPECT_EQ(c.name, "measured");
    ASSERT_EQ(c.gemm.size(), 2U);
    EXPECT_EQ(c.gemm[0].size, 256);
    EXPECT_EQ(c.gemm[0].rate, FlopsPerSecond{1.5e12});
    EXPECT_EQ(c.gemm[1].size, 1024);
    EXPECT_EQ(c.gemm[1].rate, FlopsPerSecond{2500.5e9});
    EXPECT_EQ(c.pointwise, BytesPerSecond{1.2e12});
    EXPECT_EQ(c.kernel_gap, Seconds{2.5e-6});
    ASSERT_EQ(c.nvlink_collective.size(), 2U);
    EXPECT_EQ(c.nvlink_collective[0].size, 256_KiB);
    EXPECT_EQ(c.nvlink_collective[0].bus_bandwidth, BytesPerSecond{60e9});
    EXPECT_EQ(c.nvlink_collective[1].size, 256_MiB);
    ASSERT_EQ(c.network_collective.size(), 1U);
    EXPECT_EQ(c.network_collective[0].size, 1_B);
    EXPECT_EQ(c.network_collective[0].bus_bandwidth, BytesPerSecond{10e6});
    EXPECT_EQ(c.collective_step, Seconds{3e-6});
    EXPECT_EQ(c.gemm_workspace, 32_MiB);
    EXPECT_EQ(c.attention_forward_workspace, 4.0);
    EXPECT_EQ(c.attention_backward_workspace, 520.5);
    EXPECT_EQ(c.interference.copy_out, 0.98);
    EXPECT_EQ(c.interference.copy_in, 0.95);
    EXPECT_EQ(c.interference.collective, 0.85);
}

// The file leaves out (4K queries, 1K keys), which no causal call has: the rates at the fewest keys stand in.
TEST(ReadScenario, AttentionGridIsCompleted) {
    const Calibration c = read_scenario(kValid / "everything.yaml").calibration;
    const struct {
        std::int64_t queries, keys;
        double forward, backward;
    } expected[] = {
        {512, 1024, 10e12, 9e12}, {512, 4096, 12e12, 11e12}, {4096, 1024, 20e12, 19e12}, {4096, 4096, 20e12, 19e12}};
    ASSERT_EQ(c.attention.size(), std::size(expected));
    for (std::size_t i = 0; i < std::size(expected); ++i) {
        EXPECT_EQ(c.attention[i].queries, expected[i].queries);
        EXPECT_EQ(c.attention[i].keys, expected[i].keys);
        EXPECT_EQ(c.attention[i].forward.value, expected[i].forward);
        EXPECT_EQ(c.attention[i].backward.value, expected[i].backward);
    }
}

TEST(ReadScenario, DefaultsAreTheDocumentedOnes) {
    const Scenario s = read_scenario(kValid / "defaults.yaml");
    EXPECT_EQ(s.name, "defaults");
    EXPECT_EQ(s.model.name, "inline");
    EXPECT_EQ(s.model.kv_heads, 4);
    EXPECT_EQ(s.model.head_dim, 16);
    EXPECT_EQ(s.cluster.name, "inline");
    EXPECT_EQ(s.cluster.gpu.reserved, 0_B);
    EXPECT_EQ(s.cluster.gpu.reserved_per_token, 0_B);
    EXPECT_EQ(s.cluster.gpu.reserved_per_pinned_gib, 0_B);
    EXPECT_EQ(s.cluster.gpu.margin, 0_B);
    EXPECT_EQ(s.cluster.pcie.duplex, BytesPerSecond{19e9});
    EXPECT_EQ(s.cluster.pcie.gpus_per_switch, 1);
    EXPECT_EQ(s.cluster.pcie.switch_d2h, BytesPerSecond{10e9});
    EXPECT_EQ(s.cluster.pcie.switch_h2d, BytesPerSecond{9e9});
    EXPECT_EQ(s.cluster.host.reserved, 0_B);
    EXPECT_EQ(s.cluster.host.numa_nodes, 1);
    EXPECT_EQ(s.cluster.host.numa, NumaPlacement::kLocal);
    EXPECT_EQ(s.cluster.host.allocator, HostAllocator::kExact);
    EXPECT_EQ(s.cluster.host.pin_rate.value, 0);
    EXPECT_EQ(s.other_job.host_memory, 0_B);
    EXPECT_EQ(s.cluster.nvlink.bandwidth.value, 0);
    EXPECT_EQ(s.cluster.network.nics, 0);
    EXPECT_TRUE(s.calibration.nvlink_collective.empty());
    EXPECT_TRUE(s.calibration.network_collective.empty());
    EXPECT_EQ(s.calibration.interference.copy_out, 1);
    EXPECT_EQ(s.calibration.interference.collective, 1);
    EXPECT_EQ(s.batch, 1);
    EXPECT_EQ(s.precision.weights, DataType::kBf16);
    EXPECT_EQ(s.precision.gradients, DataType::kFp32);
    EXPECT_EQ(s.precision.kv_gradients, DataType::kFp32);
    EXPECT_EQ(s.policy.partition.kind, PartitionKind::kFlops);
    EXPECT_EQ(s.policy.partition.count, CausalCount::kExact);
    EXPECT_EQ(s.policy.partition.alignment, Tokens{4});  // sp tokens: N = 16 of 64 tokens is the most that fits
    EXPECT_TRUE(std::holds_alternative<AdaptiveOffload>(s.policy.placement));
    EXPECT_EQ(s.policy.granularity, Granularity::kStage);
    EXPECT_EQ(s.policy.inventory, Inventory::kRuntime);
}

Scenario tiny_with(const std::string& policy_lines) {
    return parse_scenario(
        "model: tiny\ncluster: tiny\ncalibration: tiny\nsequence: 16 Ki tokens\npolicy:\n"
        "  sp: {degree: 2}\n  pp: 2\n  n: 8\n" +
            policy_lines,
        "text", kShipped);
}

TEST(ReadScenario, PartitionForms) {
    EXPECT_EQ(tiny_with("  partition: cost\n").policy.partition.kind, PartitionKind::kCost);
    EXPECT_EQ(tiny_with("  partition: equal\n").policy.partition.kind, PartitionKind::kEqual);
    const Partition p = tiny_with("  partition: {kind: flops, count: uncut, alignment: 128 tokens}\n").policy.partition;
    EXPECT_EQ(p.kind, PartitionKind::kFlops);
    EXPECT_EQ(p.count, CausalCount::kUncut);
    EXPECT_EQ(p.alignment, Tokens{128});
}

TEST(ReadScenario, PlacementForms) {
    EXPECT_TRUE(std::holds_alternative<KeepAll>(tiny_with("  placement: none\n").policy.placement));
    EXPECT_TRUE(std::holds_alternative<OffloadAll>(tiny_with("  placement: full\n").policy.placement));
    EXPECT_EQ(std::get<OffloadRatio>(tiny_with("  placement: {ratio: 1}\n").policy.placement).alpha, 1.0);
    EXPECT_EQ(std::get<OffloadRatio>(tiny_with("  placement: {ratio: 0}\n").policy.placement).alpha, 0.0);
}

TEST(ReadScenario, RecomputeForms) {
    EXPECT_EQ(tiny_with("  placement: three-way\n").policy.recompute, RecomputeScope::kAllButAttention);
    for (const char* placement : {"recompute", "three-way", "auto"})
        for (const RecomputeScope scope : {RecomputeScope::kAllButAttention, RecomputeScope::kLayer})
            EXPECT_EQ(tiny_with(std::string("  placement: ") + placement +
                                "\n  recompute: " + std::string(name(scope)) + "\n")
                          .policy.recompute,
                      scope);
}

TEST(ReadScenario, NameComesFromTheFile) {
    const std::string text = read_file(kValid / "defaults.yaml", 1_MiB);
    EXPECT_EQ(parse_scenario(text, "a/b/my case.yaml", kValid).name, "my-case");
    EXPECT_EQ(parse_scenario(text, "", kValid).name, "scenario");
    EXPECT_EQ(parse_scenario(text, "-.yaml", kValid).name, "scenario");
}

class NamedFiles : public testing::Test {
protected:
    void SetUp() override {
        for (const char* subfolder : {"architectures", "clusters", "calibrations"})
            std::filesystem::create_directories(folder_ / subfolder);
        std::filesystem::copy_file(kShipped / "tiny.yaml", folder_ / "tiny.yaml");
    }

    void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
    void copy(const std::string& name, const std::string& more = "") {
        write(name, read_file(kShipped / name, 1_MiB) + more);
    }
    std::string fingerprint() { return read_scenario(folder_ / "tiny.yaml").fingerprint; }

    const TemporaryFolder temporary_;
    const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(NamedFiles, BesideTheScenarioComeFirst) {
    EXPECT_EQ(read_scenario(folder_ / "tiny.yaml").model.layers, 4);  // installed
    copy("architectures/tiny.yaml");
    std::string text = read_file(folder_ / "architectures/tiny.yaml", 1_MiB);
    text.replace(text.find("layers: 4"), 9, "layers: 6");
    write("architectures/tiny.yaml", text);
    EXPECT_EQ(read_scenario(folder_ / "tiny.yaml").model.layers, 6);
}

TEST_F(NamedFiles, ErrorsNameTheFileTheyAreIn) {
    write("architectures/tiny.yaml", "layers: 4\nhiden: 256\n");
    try {
        read_scenario(folder_ / "tiny.yaml");
        FAIL() << "accepted";
    } catch (const InputError& error) {
        EXPECT_EQ(error.what(),
                  (folder_ / "architectures/tiny.yaml").string() +
                      ":2:1: unknown key \"hiden\", expected name, layers, hidden, heads, kv_heads, head_dim, "
                      "ffn, vocabulary, activation, norm, positions, bias, tied_embeddings, rope_theta, norm_epsilon; did you mean "
                      "\"hidden\"?");
    }
}

// A name that resembles none gets the list, from both folders.
TEST_F(NamedFiles, FarNamesGetTheList) {
    write("architectures/only-here.yaml", "");
    write("far.yaml", "model: quite-another-thing\ncluster: tiny\n");
    try {
        read_scenario(folder_ / "far.yaml");
        FAIL() << "accepted";
    } catch (const InputError& error) {
        const std::string_view message = error.what();
        EXPECT_NE(message.find("far.yaml:1:8: model: got \"quite-another-thing\", but there is no "
                               "architectures/quite-another-thing.yaml, expected one of: "),
                  message.npos);
        for (const char* name : {"gpt-7b, ", "only-here, ", "tiny"})
            EXPECT_NE(message.find(name), message.npos) << name;
    }
}

// The fingerprint covers the text of all four files and nothing else.
TEST_F(NamedFiles, FingerprintCoversAllFiles) {
    const std::string before = fingerprint();
    EXPECT_EQ(before, fingerprint());
    EXPECT_EQ(before, read_scenario(kShipped / "tiny.yaml").fingerprint);  // another folder, the same text
    std::set<std::string> seen{before};
    for (const char* name : {"tiny.yaml", "architectures/tiny.yaml", "clusters/tiny.yaml", "calibrations/tiny.yaml"}) {
        copy(name);
        EXPECT_TRUE(seen.contains(fingerprint())) << name << " is unchanged";
        copy(name, "# changed\n");
        EXPECT_TRUE(seen.insert(fingerprint()).second) << name;
    }
}

TEST(ReadScenario, IgnoresTheLocale) {
    struct Comma : std::numpunct<char> {
        char do_decimal_point() const override { return ','; }
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    const std::string before = read_scenario(kValid / "everything.yaml").fingerprint;
    const std::locale locale = std::locale::global(std::locale(std::locale::classic(), new Comma));
    const Scenario s = read_scenario(kValid / "everything.yaml");
    std::string message;
    try {
        tiny_with("  partition: {kind: equal, alignment: 1000 tokens}\n");
    } catch (const InputError& error) {
        message = error.what();
    }
    std::locale::global(locale);
    EXPECT_EQ(s.fingerprint, before);
    EXPECT_EQ(s.cluster.pcie.h2d, BytesPerSecond{24.8e9});
    EXPECT_EQ(message,
              "text:9:39: policy.partition.alignment: the sequence of 16384 tokens is not a multiple of the alignment, "
              "1000 tokens; expected 16000 or 17000 tokens");
}

}  // namespace
}  // namespace sluice
