// `sluice profile`: what it writes, the strict readers accept, and a scenario can be simulated with it. How fast this
// machine is, nobody asserts.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "scenarios/scenario.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

constexpr std::string_view kScenario = R"(model: {layers: 2, hidden: 64, heads: 4, ffn: 256, vocabulary: 256,
        activation: gelu, norm: layernorm, positions: learned, bias: true, tied_embeddings: true}
cluster: {use: mine, gpus_per_node: 1}
calibration: mine
sequence: 1 Ki tokens
precision: {weights: fp32, gradients: fp32, kv_gradients: fp32}
policy: {sp: {kind: megatron, degree: 1}, pp: 1, n: 4, granularity: layer}
)";

void expect_within_range(const Calibration& c) {
    for (const GemmPoint& p : c.gemm) {
        EXPECT_GT(p.m, 0);
        EXPECT_GT(p.rate.value, 1e6);
        EXPECT_LT(p.rate.value, 1e13);
    }
    for (const AttentionPoint& p : c.attention) {
        EXPECT_GT(p.head_dim, 0);
        EXPECT_GT(p.forward.value, 1e6);
        EXPECT_GT(p.backward.value, 1e6);
    }
    for (const PointwisePoint& p : c.pointwise_kernels) {
        EXPECT_GT(p.rate.value, 1e6);
        EXPECT_LT(p.rate.value, 1e13);
    }
    for (const double factor : {c.interference.copy_out, c.interference.copy_in, c.interference.collective}) {
        EXPECT_GT(factor, 0);
        EXPECT_LE(factor, 1);
    }
    EXPECT_GT(c.collective_step.value, 0);
    EXPECT_GE(c.gemm_workspace, 819200_B);  // partial sums of the loss, 8192 tokens and 8 ranks
    EXPECT_EQ(c.fused, std::vector{PointwiseKernel::kAccumulate});
}

TEST(ProfileVerb, WritesFilesThatAScenarioCanUse) {
    const TemporaryFolder folder;
    for (const char* part : {"calibrations", "clusters"}) std::filesystem::create_directory(folder.path() / part);
    const std::string rates = folder / "calibrations/mine.yaml", machine = folder / "clusters/mine.yaml";
    const Finished got = run_sluice(
        {"profile", "--device", "cpu", "--quick", "--json", "--out-calibration", rates, "--out-cluster", machine});
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.err, "");
    const auto json = nlohmann::json::parse(got.out);
    for (const char* key :
         {"device", "machine", "date", "ranks", "quick", "gemm", "attention", "pointwise", "copies", "interference",
          "collective_step_seconds", "core_share", "notes", "calibration", "cluster", "wall_seconds"})
        EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json["calibration"], rates);
    EXPECT_EQ(json["gemm"]["figures"], 27);
    EXPECT_GT(json["gemm"]["checked_shapes"], 10);

    for (const std::string& file : {rates, machine}) {
        const std::string text = read_file(file, 1_MiB);
        for (const std::string& word :
             {json["machine"]["cpu"].get<std::string>(), json["date"].get<std::string>(), std::string("OpenBLAS"),
              std::string("GCC"), std::string("core"), std::string("spread"), std::string("--quick")})
            EXPECT_NE(text.find(word), std::string::npos) << word << " in " << file;
    }
    const std::string scenario = folder / "small.yaml";
    std::ofstream(scenario) << kScenario;
    const Scenario read = read_scenario(scenario);
    EXPECT_EQ(read.calibration.name, "mine");
    expect_within_range(read.calibration);
    EXPECT_GT(read.cluster.gpu.memory, 16_MiB);
    EXPECT_GE(read.cluster.pcie.duplex.value, read.cluster.pcie.d2h.value * 0.01);
    const Finished simulated = run_sluice({"simulate", scenario, "--json"});
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    EXPECT_GT(nlohmann::json::parse(simulated.out)["step_seconds"], 0);
}

TEST(ProfileVerb, RefusesWhatItCannotDo) {
    const struct {
        std::string arguments, message;
    } cases[] = {
        {"profile --device tpu",
         "sluice profile: --device: got 'tpu', expected cpu or cuda; see sluice profile --help\n"},
        {"profile --out-calibration -",
         "sluice profile: '-': expected NAME.yaml with letters, digits, '-', '_' and '.' in NAME, at most 64: "
         "scenarios "
         "name the file so\n"},
        {"profile --out-cluster mine.txt",
         "sluice profile: 'mine.txt': expected NAME.yaml with letters, digits, '-', '_' and '.' in NAME, at most 64: "
         "scenarios name the file so\n"},
        {"profile --gpus 2",
         "sluice profile: --gpus: got 2, expected 1 with --device cpu: its ranks are threads (--ranks)\n"},
        {"profile --parts 2",
         "sluice profile: --parts: got 2, expected 1 with --device cpu: parts are those of a GPU\n"},
        {"profile --ranks 65", "sluice profile: --ranks: got 65, expected at most 64\n"},
        {"profile laptop.yaml",
         "sluice profile: unexpected 'laptop.yaml' without --import; see sluice profile --help\n"},
    };
    for (const auto& [arguments, message] : cases) {
        const Finished got = run_sluice(arguments);
        EXPECT_EQ(got.code, 2) << arguments;
        EXPECT_EQ(got.out, "") << arguments;
        EXPECT_EQ(got.err, message) << arguments;
    }
    // With a CUDA backend: what it cannot do; without: that there is none.
    const Finished cuda = run_sluice("profile --device cuda --ranks 2");
    EXPECT_EQ(cuda.code, 2);
#ifdef SLUICE_HAS_CUDA
    EXPECT_EQ(cuda.err, "sluice profile: --ranks: got 2, expected 1 with --device cuda: one GPU runs one rank\n");
#else
    EXPECT_EQ(cuda.err,
              "sluice profile: --device: got 'cuda', expected cpu: this build has no CUDA backend (cmake --preset cuda "
              "makes one)\n");
#endif
    EXPECT_EQ(run_sluice("profile --out-cluster no-such-folder/a.yaml").code, 3);
}

}  // namespace
}  // namespace sluice
