// What `sluice profile --device cuda` writes and says, from figures made up here: the strict readers accept the files,
// and they foretell what the figures said.
#include "tools/sluice/gpu_profile_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "scenarios/read_calibration.h"
#include "scenarios/read_cluster.h"
#include "scenarios/write_calibration.h"
#include "scenarios/write_cluster.h"
#include "scenarios/yaml_tree.h"
#include "schedule/flops.h"

namespace sluice {
namespace {

Measurement about(Seconds time) { return {time, time * 0.99, time * 1.01}; }

ProductFigure product(std::int64_t m, std::int64_t n, std::int64_t k) {
    const Measurement time = about(flops(Gemm{m, n, k}) / FlopsPerSecond{600e12});
    return {{m, n, k}, time, time, time};
}

AttentionFigure attention(std::int64_t queries, std::int64_t keys) {
    AttentionFigure f;
    f.shape = {Pass::kForward, true, queries, keys, 24, 8, 128};
    f.forward = about(flops(f.shape) / FlopsPerSecond{600e12});
    f.shape.pass = Pass::kBackward;
    f.backward = about(flops(f.shape) / FlopsPerSecond{500e12});
    const std::int64_t part = std::min<std::int64_t>(std::max(queries, keys - queries), 131072);
    f.forward_workspace = 256_B;
    const std::int64_t per_query = 4 * 129 + (keys > queries ? 6 * 128 : 0);
    f.backward_workspace = Bytes{4 * part * 1024 + 24 * queries * per_query + 4 * 24 * part * 128 + 256};
    return f;
}

PointwiseFigure pointwise(PointwiseKernel kernel, Bytes traffic) {
    return {kernel, about(traffic * 2 / BytesPerSecond{3e12}), traffic * 2, 2};
}

GpuFigures figures() {
    GpuFigures f;
    f.machine = {"NVIDIA H200",
                 "580.95.05, CUDA 13.0",
                 "13.0",
                 "cuBLASLt 13.1.0",
                 "cuDNN 9.19.0",
                 139_GiB,
                 2_GiB,
                 132,
                 {"a CPU", 16, 125_GiB, "", "GCC 12"}};
    f.machine.reserved_per_token = 24_B, f.machine.reserved_per_pinned_gib = 2_MiB;
    for (const std::int64_t tokens : {1024, 8192, 32768}) f.products.push_back(product(tokens, 3072, 3072));
    for (const std::int64_t queries : {2048, 8192})
        for (const std::int64_t keys : {2048, 8192, 262144})
            if (keys >= queries) f.attention.push_back(attention(queries, keys));
    for (const PointwiseKernel kernel :
         {PointwiseKernel::kRmsNorm, PointwiseKernel::kSwiglu, PointwiseKernel::kResidual})
        for (const Bytes traffic : {16_MiB, 1_GiB}) f.pointwise.push_back(pointwise(kernel, traffic));
    f.other_products = {product(6144, 5120, 5120)};
    f.other_attention = {attention(4096, 98304)};
    f.other_pointwise = {pointwise(PointwiseKernel::kSwiglu, 100_MiB)};
    f.copies = {
        {{64_MiB, BytesPerSecond{55.1e9}, BytesPerSecond{54.9e9}, BytesPerSecond{51e9}, BytesPerSecond{47e9}},
         {256_MiB, BytesPerSecond{55.2e9}, BytesPerSecond{55e9}, BytesPerSecond{51.6e9}, BytesPerSecond{46.7e9}}},
        0.004,
        Seconds{2.4e-6},
        BytesPerSecond{6.6e9}};
    f.interference = {0.99, 0.93, 0.92};
    f.kernel_gap = Seconds{1.3e-6};
    f.attention_rows = 128, f.attention_stretch = 8192;
    const auto gains = [](double by) { return PausedCall{Seconds{by}, Seconds{1}}; };
    f.power = {gains(1.0625), gains(1.25), gains(1.125), {Seconds{6.9e-3}, Seconds{6e-3}},
               {{0.75, Seconds{6.3e-3}}}, Seconds{0.03}};
    return f;
}

GpuProfileReport report_of(GpuFigures f, const std::string& calibration, const std::string& cluster) {
    GpuProfileReport r = gpu_profile_report(std::move(f), calibration, cluster);
    r.date = "2026-11-30", r.version = "0.1.0";
    return r;
}
GpuProfileReport report() { return report_of(figures(), "h200-now", "h200-here"); }

template <class Read>
auto read_text_with(const std::string& text, Read read) {
    const YamlNode tree = parse_yaml(text, "written.yaml");
    return read(YamlField{&tree, "", "written.yaml", tree.place}, "unnamed");
}

// Both files of a report, as written and as read back.
struct Written {
    std::string rates, machine;
    Calibration calibration;
    Cluster cluster;

    explicit Written(const GpuProfileReport& r) {
        std::ostringstream calibration_file, cluster_file;
        write_calibration(calibration_file, r.calibration, gpu_calibration_origin(r));
        write_cluster(cluster_file, r.cluster, gpu_cluster_origin(r));
        rates = calibration_file.str(), machine = cluster_file.str();
        calibration = read_text_with(rates, read_calibration), cluster = read_text_with(machine, read_cluster);
    }
};

TEST(GpuProfileReport, TheCalibrationIsReadBack) {
    const Written written(report());
    const Calibration& c = written.calibration;
    EXPECT_EQ(c.name, "h200-now");
    EXPECT_EQ(c.gemm.size(), 3U);
    EXPECT_EQ(c.attention.size(), 6U);
    EXPECT_EQ(c.fused, std::vector{PointwiseKernel::kAccumulate});
    EXPECT_EQ(c.gemm_workspace, 64_KiB);
    EXPECT_EQ(c.interference.copy_out, 0.99);
    EXPECT_EQ(c.interference.copy_in, 0.93);
    EXPECT_EQ(c.interference.collective, 1);
    EXPECT_NEAR(c.kernel_gap.value, 1.3e-6, 1e-12);
    EXPECT_EQ(c.attention_tiles, (AttentionTiles{128, 8192, 132, 24}));
    EXPECT_NEAR(c.power_limit.busy, 1 - 0.25 / (2.0 / 3), 1e-4);  // 0.6 of 0.9 ms gained while busy for 75%
    EXPECT_EQ(c.power_limit.attention_forward, 1.25);
    EXPECT_GT(c.power_limit.window.value, 0);
    for (const char* word : {"NVIDIA H200", "580.95.05", "cuBLASLt 13.1.0", "cuDNN 9.19.0", "2026-11-30", "spread"})
        EXPECT_NE(written.rates.find(word), std::string::npos) << word;
}

// Two parts of one GPU, with the figures of the kernels of one.
TEST(GpuProfileReport, PartsAreReadBack) {
    GpuFigures f = figures();
    f.part = {2, 64, 1.25, BytesPerSecond{1.5e12}, Seconds{6e-6}};
    const GpuProfileReport r = report_of(std::move(f), "split", "split-here");
    const Written written(r);
    const Calibration& c = written.calibration;
    EXPECT_EQ(c.interference.memory_alone, 1.25);
    EXPECT_NEAR(c.collective_step.value, 6e-6, 1e-12);
    const Cluster whole = report().cluster, cut = written.cluster;
    EXPECT_EQ(cut.gpu.parts, 2);
    EXPECT_EQ(cut.gpus_per_node, 2);
    EXPECT_EQ(cut.gpu.name, "NVIDIA H200 part of 64 SMs");
    EXPECT_EQ(cut.gpu.memory, whole.gpu.memory / 2);
    EXPECT_EQ(cut.gpu.reserved_per_token, 24_B);  // every rank has the tokens of the whole step
    EXPECT_EQ(cut.pcie.d2h.value, whole.pcie.d2h.value);  // of all parts together
    EXPECT_EQ(cut.nvlink.bandwidth.value, 1.5e12);
    EXPECT_EQ(cut.gpu.memory_bandwidth.value, 1.25 * whole.gpu.memory_bandwidth.value);  // no peak known: one alone
    for (const std::string& text : {written.rates, written.machine})
        EXPECT_NE(text.find("profile --device cuda --parts 2"), std::string::npos) << text;
    EXPECT_NE(gpu_profile_text(r).find("one of 2 parts"), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(gpu_profile_json(r))["part"]["multiprocessors"], 64);
}

// Two GPUs, as NCCL might have it: 5 us a hop, 300 GB/s of a link; transfers 350 GB/s after 12 us.
GpuMessages two_gpus() {
    GpuMessages m;
    m.gpus = 2, m.nccl = "2.28.9", m.product_beside = 0.85, m.communicators = 1_GiB;
    for (std::int64_t size = (4_KiB).value; size <= (1_GiB).value; size *= 4)
        for (const auto& [kind, hops] :
             {std::pair{MessageKind::kAllGather, 1}, std::pair{MessageKind::kReduceScatter, 1},
              std::pair{MessageKind::kAllReduce, 2}, std::pair{MessageKind::kAllToAll, 1}})
            m.alone.push_back(
                {kind, 2, 0, Bytes{size}, Seconds{5e-6 * hops + 0.5 * hops * static_cast<double>(size) / 300e9}});
    for (const Bytes size : {4_KiB, 1_MiB, 64_MiB, 1_GiB})
        m.alone.push_back(
            {MessageKind::kSendReceive, 2, 0, size, Seconds{12e-6 + static_cast<double>(size.value) / 350e9}});
    m.beside_copies = {{MessageKind::kAllGather, 2, 0, 1_GiB, Seconds{2 * (5e-6 + 0.5 * 1073741824 / 300e9)}}};
    m.links.gpus = 2;
    m.links.all_out = m.links.all_in = BytesPerSecond{106e9};
    m.links.all_out_beside_in = BytesPerSecond{70e9}, m.links.all_in_beside_out = BytesPerSecond{64e9};
    return m;
}

TEST(GpuProfileReport, SeveralGpusHaveCollectivesAndLinks) {
    GpuFigures f = figures();
    f.messages = two_gpus();
    const GpuProfileReport r = report_of(std::move(f), "h200x2", "h200x2-here");
    const Written written(r);
    const Calibration& c = written.calibration;
    EXPECT_NEAR(c.collective_step.value, 5e-6, 0.1e-6);
    ASSERT_EQ(c.nvlink_collective.size(), 10U);
    EXPECT_NEAR(c.nvlink_collective.back().bus_bandwidth.value, 300e9, 1e9);
    EXPECT_EQ(c.interference.collective, 0.85);
    const Cluster alone = report().cluster, both = written.cluster;
    EXPECT_EQ(both.gpus_per_node, 2);
    EXPECT_EQ(both.gpu.reserved, alone.gpu.reserved + 1_GiB);
    EXPECT_EQ(both.gpu.memory, alone.gpu.memory);
    EXPECT_NEAR(both.nvlink.bandwidth.value, 350e9, 1e9);
    EXPECT_NEAR(both.nvlink.latency.value, 12e-6, 0.1e-6);
    EXPECT_EQ(both.host.bandwidth.value, 134e9);
    EXPECT_EQ(both.pcie.d2h.value, alone.pcie.d2h.value);  // of one alone
    for (const std::string& text : {written.rates, written.machine})
        EXPECT_NE(text.find("profile --device cuda --gpus 2"), std::string::npos) << text;
    const std::string text = gpu_profile_text(r);
    EXPECT_NE(text.find("299 GB/s at 1.00 GiB, 0.500 of it beside copies out"), std::string::npos) << text;
    const auto json = nlohmann::json::parse(gpu_profile_json(r))["messages"];
    EXPECT_EQ(json["gpus"], 2);
    EXPECT_EQ(json["nccl"], "2.28.9");
    EXPECT_EQ(json["alone"].size(), 44U);
    EXPECT_LT(json["errors"]["all_gather_perf"]["error_p90_absolute"], 0.06);
    EXPECT_LT(json["errors"]["sendrecv_perf"]["error_p90_absolute"], 0.01);
}

TEST(GpuProfileReport, TheClusterIsReadBack) {
    const Written written(report());
    const Cluster& c = written.cluster;
    EXPECT_EQ(c.name, "h200-here");
    EXPECT_EQ(c.gpu.memory, 139_GiB);
    EXPECT_EQ(c.gpu.reserved, 2_GiB);
    EXPECT_EQ(c.gpu.reserved_per_token, 24_B);
    EXPECT_EQ(c.gpu.reserved_per_pinned_gib, 2_MiB);
    EXPECT_NEAR(c.pcie.d2h.value, 55.2e9, 1e6);
    EXPECT_NEAR(c.pcie.duplex.value, 98.3e9, 1e7);
    EXPECT_NEAR(c.host.pin_rate.value, 6.6e9, 1e6);
    EXPECT_EQ(c.gpus(), 1);
}

// All rates are the same, so other shapes are foretold exactly; and the workspaces are those of the CUDA backend.
TEST(GpuProfileReport, WhatWasMeasuredIsForetold) {
    const GpuProfileReport r = report();
    for (const PredictionError& e :
         {r.check.other.gemm, r.check.other.attention, r.check.other.pointwise, r.check.gemm_table}) {
        EXPECT_GT(e.shapes, 0U);
        EXPECT_LT(e.p90_absolute, 1e-9);
    }
    EXPECT_TRUE(r.check.short_workspaces.empty()) << r.check.short_workspaces.front();
}

TEST(GpuProfileReport, AWorkspaceThatTheTableDoesNotCoverIsSaid) {
    GpuFigures f = figures();
    f.other_attention.front().backward_workspace += 1_GiB;
    const GpuProfileReport r = gpu_profile_report(std::move(f), "a", "b");
    ASSERT_EQ(gpu_profile_notes(r).size(), 1U);
    EXPECT_EQ(
        gpu_profile_notes(r).front().find("backward attention of 4096 queries and 98304 keys needs a workspace of"),
        0U);
}

TEST(GpuProfileReport, JsonHasEveryFigure) {
    const auto json = nlohmann::json::parse(gpu_profile_json(report()));
    for (const char* key :
         {"device", "machine", "date", "ranks", "quick", "gemm", "attention", "pointwise", "copies", "interference", "power",
          "kernel_gap_seconds", "attention_workspace", "measured", "notes", "calibration", "cluster", "wall_seconds"})
        EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json["measured"]["products"].size(), 3U);
    EXPECT_EQ(json["measured"]["attention"].size(), 5U);
    EXPECT_EQ(json["copies"]["rates"][1]["bytes"], (256_MiB).value);
    EXPECT_NE(gpu_profile_text(report()).find("cuDNN 9.19.0"), std::string::npos);
}

}  // namespace
}  // namespace sluice
