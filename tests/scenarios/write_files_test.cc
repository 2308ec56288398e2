// What we write, the strict readers accept; written again it is the same text.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/architecture.h"
#include "scenarios/read_calibration.h"
#include "scenarios/read_cluster.h"
#include "scenarios/write_calibration.h"
#include "scenarios/write_cluster.h"
#include "scenarios/yaml_text.h"

namespace sluice {
namespace {

const std::filesystem::path kShipped = std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios";
const FileOrigin kOrigin{"two lines\nof comment", {{"test", "a \"quoted\" \\ title", "a note"}}, {}};

template <class Read>
auto read_text_with(const std::string& text, Read read) {
    const YamlNode tree = parse_yaml(text, "written.yaml");
    return read(YamlField{&tree, "", "written.yaml", tree.place}, "unnamed");
}

std::string text_of(const Calibration& c, const FileOrigin& origin = kOrigin) {
    std::ostringstream out;
    write_calibration(out, c, origin);
    return out.str();
}

std::string text_of(const Cluster& c) {
    std::ostringstream out;
    write_cluster(out, c, kOrigin);
    return out.str();
}

template <class Read>
void expect_round_trips(const std::filesystem::path& folder, Read read) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".yaml") continue;
        const auto original = read_text_with(read_file(entry.path(), 1_MiB), read);
        const std::string text = text_of(original);
        const auto again = read_text_with(text, read);
        EXPECT_EQ(text_of(again), text) << entry.path();
        ++files;
    }
    EXPECT_GE(files, 4U);
}

TEST(WriteFiles, ShippedCalibrationsRoundTrip) { expect_round_trips(kShipped / "calibrations", read_calibration); }
TEST(WriteFiles, ShippedClustersRoundTrip) { expect_round_trips(kShipped / "clusters", read_cluster); }

TEST(WriteFiles, RoundNumbersLoseNothing) {
    Calibration tiny = read_text_with(read_file(kShipped / "calibrations/tiny.yaml", 1_MiB), read_calibration);
    EXPECT_EQ(read_text_with(text_of(tiny), read_calibration), tiny);
}

// Everything that no shipped file has.
Calibration cpu_like() {
    Calibration c;
    c.name = "cpu";
    for (const std::int64_t m : {16, 64})
        for (const std::int64_t n : {16, 1024}) c.gemm.push_back({0, FlopsPerSecond{97.4e9}, m, n, 4096});
    for (const std::int64_t d : {32, 64}) {
        c.attention.push_back({64, 64, FlopsPerSecond{1e9}, FlopsPerSecond{2e9}, d});
        c.attention.push_back({64, 256, FlopsPerSecond{3e9}, FlopsPerSecond{4.125e9}, d});
        c.attention.push_back({256, 64, FlopsPerSecond{5e9}, FlopsPerSecond{6e9}, d});  // the reader's filling
        c.attention.push_back({256, 256, FlopsPerSecond{5e9}, FlopsPerSecond{6e9}, d});
    }
    c.pointwise = BytesPerSecond{5e9};
    c.pointwise_kernels = {{PointwiseKernel::kSwiglu, 1000_B, BytesPerSecond{4e9}},
                           {PointwiseKernel::kSwiglu, 64_MiB, BytesPerSecond{3e9}},
                           {PointwiseKernel::kGelu, 64_KiB, BytesPerSecond{2e9}},
                           {PointwiseKernel::kRmsNorm, 64_KiB, BytesPerSecond{6e9}}};
    c.fused = {PointwiseKernel::kAccumulate, PointwiseKernel::kLayerNorm};
    c.kernel_gap = Seconds{3e-8};
    c.collective_call = Seconds{5e-5}, c.collective_step = Seconds{2.5e-5};
    c.gemm_workspace = Bytes{131585};
    c.interference = {0.5, 0.75, 1, 1.25};
    c.attention_tiles = {128, 8192, 132, 24};
    c.power_limit = {1.5, 1.25, 1.125, 0.625, Seconds{0.03125}};
    return c;
}

TEST(WriteFiles, CpuCalibrationRoundTripsExactly) {
    FileOrigin origin = kOrigin;
    origin.sources.push_back({"code", "from the code"});
    origin.blocks["fused"] = {"code", "part of attention"};
    const std::string text = text_of(cpu_like(), origin);
    EXPECT_EQ(read_text_with(text, read_calibration), cpu_like()) << text;
    EXPECT_TRUE(text.starts_with("# two lines\n# of comment\nname: cpu\n")) << text;
}

TEST(WriteFiles, ModelChoosesTheFormsOfKernels) {
    Architecture llama;
    llama.activation = ActivationFunction::kSwiglu, llama.norm = Norm::kRmsNorm;
    Architecture gpt;
    gpt.activation = ActivationFunction::kGelu, gpt.norm = Norm::kLayerNorm;
    const Calibration for_llama = calibration_of_model(cpu_like(), llama);
    const Calibration for_gpt = calibration_of_model(cpu_like(), gpt);
    const std::vector<PointwisePoint> swiglu = {{PointwiseKernel::kActivation, 1000_B, BytesPerSecond{4e9}},
                                                {PointwiseKernel::kActivation, 64_MiB, BytesPerSecond{3e9}},
                                                {PointwiseKernel::kNorm, 64_KiB, BytesPerSecond{6e9}}};
    const std::vector<PointwisePoint> gelu = {{PointwiseKernel::kActivation, 64_KiB, BytesPerSecond{2e9}}};
    EXPECT_EQ(for_llama.pointwise_kernels, swiglu);
    EXPECT_EQ(for_gpt.pointwise_kernels, gelu);
    EXPECT_EQ(for_llama.fused, std::vector{PointwiseKernel::kAccumulate});
    EXPECT_EQ(for_gpt.fused, (std::vector{PointwiseKernel::kAccumulate, PointwiseKernel::kNorm}));

    Calibration both = cpu_like();
    both.pointwise_kernels.insert(both.pointwise_kernels.begin(),
                                  {PointwiseKernel::kActivation, 1_B, BytesPerSecond{9e9}});
    EXPECT_EQ(calibration_of_model(both, gpt).pointwise_kernels, gelu);  // the special row wins
}

TEST(WriteFiles, NumbersHaveFourDigitsAndNoExponent) {
    const struct {
        double value;
        std::string_view text;
    } cases[] = {{0, "0"},       {97.4, "97.4"},           {0.00213, "0.00213"}, {12345, "12350"},
                 {1, "1"},       {99999, "100000"},        {2.0 / 3, "0.6667"},  {1e12, "1000000000000"},
                 {1000, "1000"}, {123456789, "123500000"}, {0.1, "0.1"},         {3.14159e-7, "0.0000003142"}};
    for (const auto& [value, text] : cases) EXPECT_EQ(decimal(value), text);
    EXPECT_EQ(yaml_text("a\"b\\c\nd"), R"("a\"b\\c d")");
    EXPECT_EQ(yaml_quantity(Bytes{131585}), "131585 B");
    EXPECT_EQ(yaml_quantity(64_MiB), "64 MiB");
}

}  // namespace
}  // namespace sluice
