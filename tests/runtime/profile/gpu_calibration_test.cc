// Tables from times of shapes, without a GPU: the times are made up here so that the rates are known.
#include "runtime/profile/gpu_calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedule/flops.h"

namespace sluice {
namespace {

Measurement exactly(Seconds time) { return {time, time, time}; }

ProductFigure product(std::int64_t m, std::int64_t n, std::int64_t k, double teraflops) {
    const Gemm shape{m, n, k};
    const Seconds mean = flops(shape) / FlopsPerSecond{teraflops * 1e12};
    return {shape, exactly(mean * 0.8), exactly(mean), exactly(mean * 1.2)};
}

TEST(GpuCalibration, ProductsGoToTheRowOfTheirSize) {
    const std::vector<ProductFigure> products = {
        product(8192, 8192, 8192, 700), product(4096, 8192, 16384, 500), product(16384, 8192, 4096, 600),
        product(512, 512, 512, 100),    product(64, 64, 64, 10),  // smaller than the first row: counts there
    };
    const std::vector<GemmPoint> table = gemm_table(products);
    ASSERT_EQ(table.size(), 2U);
    EXPECT_DOUBLE_EQ(table[0].size, std::round(std::sqrt(512.0 * 64)));
    EXPECT_NEAR(table[0].rate.value, 55e12, 1e6);  // the mean of two
    EXPECT_DOUBLE_EQ(table[1].size, 8192);
    EXPECT_NEAR(table[1].rate.value, 600e12, 1e6);  // the median of three
    EXPECT_EQ(table[1].m, 0);
}

TEST(GpuCalibration, SizesOfARowRise) {
    std::vector<ProductFigure> products;
    for (std::int64_t tokens = 16384; tokens >= 128; tokens /= 2)
        for (const std::int64_t hidden : {768, 2048, 3072, 5120})
            products.push_back(product(tokens, hidden, hidden, 300));
    const std::vector<GemmPoint> table = gemm_table(products);
    EXPECT_GT(table.size(), 6U);
    for (std::size_t i = 1; i < table.size(); ++i) EXPECT_LT(table[i - 1].size, table[i].size);
}

AttentionFigure attention(std::int64_t queries, std::int64_t keys, double forward, double backward) {
    AttentionFigure f;
    f.shape = {Pass::kForward, true, queries, keys, 24, 8, 128};
    f.forward = exactly(flops(f.shape) / FlopsPerSecond{forward});
    f.shape.pass = Pass::kBackward;
    f.backward = exactly(flops(f.shape) / FlopsPerSecond{backward});
    return f;
}

TEST(GpuCalibration, AttentionIsAFullGridWhoseEmptyCornerHasTheNearestRate) {
    const std::vector<AttentionFigure> figures = {attention(2048, 2048, 1e14, 2e14), attention(2048, 8192, 3e14, 4e14),
                                                  attention(8192, 8192, 5e14, 6e14)};
    const std::vector<AttentionPoint> table = attention_table(figures);
    ASSERT_EQ(table.size(), 4U);
    const double expected[][4] = {
        {2048, 2048, 1e14, 2e14}, {2048, 8192, 3e14, 4e14}, {8192, 2048, 5e14, 6e14}, {8192, 8192, 5e14, 6e14}};
    for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(static_cast<double>(table[i].queries), expected[i][0]);
        EXPECT_EQ(static_cast<double>(table[i].keys), expected[i][1]);
        EXPECT_NEAR(table[i].forward.value, expected[i][2], 1e5);
        EXPECT_NEAR(table[i].backward.value, expected[i][3], 1e5);
    }
}

TEST(GpuCalibration, MemoryBoundKernelsHaveTheRateOfBothPasses) {
    const PointwiseFigure small{PointwiseKernel::kSwiglu, exactly(Seconds{8e-6}), 16_MiB, 2};
    const PointwiseFigure large{PointwiseKernel::kSwiglu, exactly(Seconds{64e-6}), 160_MiB, 2};
    const PointwiseFigure same{PointwiseKernel::kSwiglu, exactly(Seconds{63e-6}), 160_MiB, 2};  // no second row
    const std::vector<PointwiseFigure> figures = {small, large, same};
    const std::vector<PointwisePoint> table = pointwise_table(figures);
    ASSERT_EQ(table.size(), 2U);
    EXPECT_EQ(table[0].traffic, 8_MiB);
    EXPECT_DOUBLE_EQ(table[0].rate.value, static_cast<double>((16_MiB).value) / 8e-6);
    EXPECT_EQ(table[1].traffic, 80_MiB);
}

// As docs/cuda.md has it for the backward pass: what the layout of the workspace has, and the library beside it.
Bytes backward_workspace(std::int64_t queries, std::int64_t keys, std::int64_t part, std::int64_t kv_heads) {
    const std::int64_t heads = 24, d = 128;
    const std::int64_t dq = keys > queries ? 6 * heads * queries * d : 0;
    const std::int64_t library = 256 + (kv_heads < heads ? 4 * heads * part * d : 0);
    return Bytes{4 * part * kv_heads * d + 4 * heads * queries * (1 + d) + dq + library};
}

TEST(GpuCalibration, WorkspacesAreBoundByQueriesAndKeys) {
    std::vector<AttentionFigure> figures;
    for (const auto& [queries, keys, part] : {std::tuple{2048, 2048, 2048}, std::tuple{2048, 8192, 6144},
                                              std::tuple{32768, 262144, 131072}, std::tuple{32768, 32768, 32768}}) {
        figures.push_back(attention(queries, keys, 1e14, 1e14));
        figures.back().forward_workspace = 256_B;
        figures.back().backward_workspace = backward_workspace(queries, keys, part, 8);
    }
    AttentionWorkspace bound = attention_workspace(figures);
    EXPECT_EQ(bound.forward, 0);
    EXPECT_EQ(bound.backward, 4 * 129 + 6 * 128);
    EXPECT_LE(bound.grouped_backward, 4 * 128);
    EXPECT_GT(bound.grouped_backward, 4 * 128 - 8);

    // A library that wants 100 bytes per head and query more, without groups.
    for (AttentionFigure& f : figures) {
        f.shape.kv_heads = 24;
        f.forward_workspace = Bytes{24 * f.shape.queries * 12} + 4_KiB;
        const std::int64_t part = std::min<std::int64_t>(f.shape.keys, 131072);
        f.backward_workspace =
            backward_workspace(f.shape.queries, f.shape.keys, part, 24) + Bytes{24 * f.shape.queries * 100};
    }
    bound = attention_workspace(figures);
    EXPECT_EQ(bound.forward, 12);
    EXPECT_LE(bound.backward, 4 * 129 + 6 * 128 + 100);
    EXPECT_GE(bound.backward, 4 * 129 + 6 * 128 + 99);
    EXPECT_EQ(bound.grouped_backward, 0);
}

// As one of two parts of an H200 was measured beside products: 3481 GB/s with 1 GiB, more with what the L2 holds.
GpuFigures part_of_an_h200() {
    GpuFigures f;
    f.machine.memory = 140_GiB, f.machine.l2 = 60_MiB;
    f.machine.memory_peak = BytesPerSecond{4800e9};
    f.products = {product(8192, 8192, 8192, 300)};
    const auto residual = [](Bytes traffic, double rate) {
        return PointwiseFigure{PointwiseKernel::kResidual, exactly(traffic / BytesPerSecond{rate}), traffic, 1};
    };
    f.pointwise = {residual(16_MiB, 9e12), residual(1_GiB, 3481e9)};
    f.copies.rates = {{256_MiB, BytesPerSecond{55e9}, BytesPerSecond{55e9}, {}, {}}};
    f.part = {2, 64, 1.2, BytesPerSecond{1.2e12}, Seconds{1e-5}};
    return f;
}

TEST(GpuCalibration, PartsTogetherHaveNoMoreThanThePeakOfTheMemory) {
    GpuFigures f = part_of_an_h200();
    EXPECT_EQ(gpu_cluster(f, "split").gpu.memory_bandwidth.value, 4800e9);  // not 6962
    f.machine.memory_peak = {};  // unknown: what one part has alone is what is known to be there
    EXPECT_NEAR(gpu_cluster(f, "split").gpu.memory_bandwidth.value, 1.2 * 3481e9, 1e6);
    f.machine.memory_peak = BytesPerSecond{4800e9};
    f.pointwise.back().time = exactly(1_GiB / BytesPerSecond{1e12});  // four times what the L2 holds counts, no less
    EXPECT_NEAR(gpu_cluster(f, "split").gpu.memory_bandwidth.value, 2.4e12, 1e6);  // a copy reads and writes
    f.part = {};
    EXPECT_NEAR(gpu_cluster(f, "whole").gpu.memory_bandwidth.value, 1e12, 1e6);
    f.machine.l2 = 1_GiB;  // nothing is large enough
    EXPECT_EQ(gpu_cluster(f, "whole").gpu.memory_bandwidth.value, 4800e9);
}

TEST(GpuCalibration, WithoutLeavesATenthAtLeast) {
    const Measurement whole{Seconds{10}, Seconds{9}, Seconds{12}};
    EXPECT_EQ(without(whole, Seconds{4}).median, Seconds{6});
    EXPECT_EQ(without(whole, Seconds{4}).p90, Seconds{8});
    EXPECT_EQ(without(whole, Seconds{100}).median, Seconds{1});
    EXPECT_EQ(without(whole, Seconds{100}).p10, Seconds{1});
}

}  // namespace
}  // namespace sluice
