#include "models/kernel_cost.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/error.h"

namespace sluice {
namespace {

// Pairs that are not masked, counted one by one.
std::int64_t count_pairs(std::int64_t queries, std::int64_t keys, bool causal) {
    std::int64_t pairs = 0;
    for (std::int64_t q = 0; q < queries; ++q) {
        for (std::int64_t k = 0; k < keys; ++k) pairs += !causal || k <= keys - queries + q;
    }
    return pairs;
}

Attention attention(std::int64_t queries, std::int64_t keys, bool causal = true, Pass pass = Pass::kForward) {
    return {pass, causal, queries, keys, 3, 1, 16};
}

// Round numbers: a GEMM table over sizes 100 .. 10000, an attention grid of 2 x 3 points.
Calibration round_calibration() {
    Calibration c;
    c.gemm = {{100, FlopsPerSecond{1e12}}, {10000, FlopsPerSecond{5e12}}};
    for (const std::int64_t queries : {10, 1000}) {
        for (const std::int64_t keys : {1000, 100000, 10000000}) {
            // 1, 2, 3 e12 along the keys, doubled in the second row; backward half of that.
            const double rate = (keys == 1000 ? 1e12 : keys == 100000 ? 2e12 : 3e12) * (queries == 10 ? 1 : 2);
            c.attention.push_back({queries, keys, FlopsPerSecond{rate}, FlopsPerSecond{rate / 2}});
        }
    }
    c.pointwise = BytesPerSecond{1e12};
    return c;
}

TEST(KernelCost, GemmCountsAMultiplyAddAsTwo) {
    EXPECT_EQ(flops(Gemm{2, 3, 5}).value, 60);
    EXPECT_EQ(flops(Gemm{0, 3, 5}).value, 0);
    EXPECT_EQ(flops(KernelShape{Gemm{2, 3, 5}}).value, 60);
}

TEST(KernelCost, AttentionCountsUnmaskedPairsExactly) {
    for (const std::int64_t queries : {1, 2, 7, 16}) {
        for (const std::int64_t prefix : {0, 1, 9}) {
            for (const bool causal : {true, false}) {
                const std::int64_t keys = queries + prefix;
                const auto pairs = static_cast<double>(count_pairs(queries, keys, causal));
                EXPECT_EQ(flops(attention(queries, keys, causal)).value, 4 * 16 * 3 * pairs);
                EXPECT_EQ(flops(attention(queries, keys, causal, Pass::kBackward)).value, 10 * 16 * 3 * pairs);
            }
        }
    }
}

TEST(KernelCost, CausalSubsequencesSumToTheWholeSequence) {
    const double whole = flops(attention(1024, 1024)).value;
    const double parts =
        flops(attention(512, 512)).value + flops(attention(384, 896)).value + flops(attention(128, 1024)).value;
    EXPECT_EQ(parts, whole);
}

// Four million tokens: 8.8e12 pairs times 4 x 128 x 32 do not fit int64 products of careless order.
TEST(KernelCost, AttentionOfAFourMillionTokenSequence) {
    const std::int64_t s = 4 * 1024 * 1024;
    const Attention a{Pass::kBackward, true, s, s, 32, 32, 128};
    const double pairs = 4194304.0 * 4194305.0 / 2;
    EXPECT_DOUBLE_EQ(flops(a).value, 10.0 * 128 * 32 * pairs);
}

TEST(KernelCost, PointwiseCountsNoFlops) {
    EXPECT_EQ(flops(KernelShape{Pointwise{PointwiseKind::kNorm, 5_GiB}}).value, 0);
}

TEST(KernelCost, GemmRateIsLinearInTheLogarithmOfTheSizeAndHeldOutside) {
    struct Case {
        Gemm gemm;
        double rate;
    };
    const std::vector<Case> cases = {
        {{100, 100, 100}, 1e12},           // a point of the table
        {{1000, 1000, 1000}, 3e12},        // half way between 100 and 10000 in the logarithm
        {{100, 1000, 10000}, 3e12},        // the geometric mean counts, not the shape
        {{10000, 10000, 10000}, 5e12},     // the last point
        {{10, 10, 10}, 1e12},              // below: held
        {{100000, 100000, 100000}, 5e12},  // above: held
    };
    for (const Case& c : cases) {
        const double expected = flops(c.gemm).value / c.rate;
        EXPECT_NEAR(kernel_time({c.gemm, 1}, round_calibration()).value / expected, 1, 1e-12)
            << c.gemm.m << " x " << c.gemm.n << " x " << c.gemm.k;
    }
}

TEST(KernelCost, AttentionRateIsBilinearInTheLogarithms) {
    struct Case {
        std::int64_t queries, keys;
        double forward_rate;
    };
    const std::vector<Case> cases = {
        {10, 1000, 1e12},         {10, 100000, 2e12},      {1000, 100000, 4e12},  // points
        {10, 10000, 1.5e12},      {100, 1000, 1.5e12},                            // half way along one axis
        {100, 10000, 2.25e12},                              // half way along both: mean of 1 2 2 4
        {1, 1000, 1e12},          {5000, 100000000, 6e12},  // outside: held
        {100, 100000000, 4.5e12},                           // outside on one axis only
    };
    for (const Case& c : cases) {
        const Attention forward = attention(c.queries, c.keys, false);
        const Attention backward = attention(c.queries, c.keys, false, Pass::kBackward);
        const Calibration calibration = round_calibration();
        EXPECT_NEAR(kernel_time({forward, 1}, calibration).value / (flops(forward).value / c.forward_rate), 1, 1e-12)
            << c.queries << " x " << c.keys;
        EXPECT_NEAR(kernel_time({backward, 1}, calibration).value / (flops(backward).value / c.forward_rate * 2), 1,
                    1e-12)
            << c.queries << " x " << c.keys;
    }
}

TEST(KernelCost, EveryCallPaysTheGap) {
    Calibration c = round_calibration();
    c.kernel_gap = Seconds{0.25};
    const Pointwise norm{PointwiseKind::kNorm, Bytes{2'000'000'000'000}};  // 2 s at 1 TB/s
    EXPECT_DOUBLE_EQ(kernel_time({norm, 1}, c).value, 2.25);
    EXPECT_DOUBLE_EQ(kernel_time({norm, 4}, c).value, 9);
    EXPECT_DOUBLE_EQ(compute_time({{{norm, 4}, {norm, 1}}}, c).value, 11.25);
    EXPECT_EQ(kernel_time({norm, 0}, c).value, 0);
    EXPECT_EQ(compute_time({}, c).value, 0);
}

// Rates m + 10 n + 100 k GFLOP/s at the corners of a cube, so that every axis shows in the result.
TEST(KernelCost, GemmRateByShapeIsTrilinearInTheLogarithms) {
    Calibration c = round_calibration();
    c.gemm.clear();
    for (const std::int64_t m : {1, 100})
        for (const std::int64_t n : {1, 100})
            for (const std::int64_t k : {1, 100})
                c.gemm.push_back({0, FlopsPerSecond{1e9 * static_cast<double>(m + 10 * n + 100 * k)}, m, n, k});
    const struct {
        Gemm gemm;
        double gflops;
    } cases[] = {
        {{1, 1, 1}, 111},       {{100, 1, 1}, 210},      {{1, 100, 1}, 1101},     {{1, 1, 100}, 10011},
        {{10, 1, 1}, 160.5},    {{1, 10, 1}, 606},       {{1, 1, 10}, 5061},      {{10, 10, 10}, 50.5 * 111},
        {{100, 10, 1}, 705},    {{1000, 1, 1}, 210},     {{5000, 1000, 1000}, 11100},  // outside: held
    };
    for (const auto& [gemm, gflops] : cases)
        EXPECT_NEAR(kernel_time({gemm, 1}, c).value, flops(gemm).value / (gflops * 1e9), 1e-12 * gflops)
            << gemm.m << " x " << gemm.n << " x " << gemm.k;
    c.gemm.pop_back();
    EXPECT_THROW(kernel_time({Gemm{8, 8, 8}, 1}, c), InternalError);
}

TEST(KernelCost, AttentionRateFollowsTheHeadWhereTheTableHasIt) {
    Calibration c = round_calibration();
    c.attention = {{10, 1000, FlopsPerSecond{1e9}, FlopsPerSecond{2e9}, 16},
                   {10, 1000, FlopsPerSecond{3e9}, FlopsPerSecond{4e9}, 64}};
    const auto rate = [&](std::int64_t head_dim, Pass pass) {
        Attention a = attention(10, 1000, true, pass);
        a.head_dim = head_dim;
        return flops(a).value / kernel_time({a, 1}, c).value / 1e9;
    };
    EXPECT_NEAR(rate(16, Pass::kForward), 1, 1e-9);
    EXPECT_NEAR(rate(32, Pass::kForward), 2, 1e-9);
    EXPECT_NEAR(rate(32, Pass::kBackward), 3, 1e-9);
    EXPECT_NEAR(rate(128, Pass::kBackward), 4, 1e-9);
    EXPECT_NEAR(rate(8, Pass::kForward), 1, 1e-9);
}

TEST(KernelCost, PointwiseKernelsHaveTheirOwnRates) {
    Calibration c = round_calibration();  // 1 TB/s for all
    c.kernel_gap = Seconds{1};
    c.pointwise_kernels = {{PointwiseKernel::kNorm, 1000_B, BytesPerSecond{1e3}},
                           {PointwiseKernel::kNorm, 100000_B, BytesPerSecond{3e3}},
                           {PointwiseKernel::kAdamw, 1_B, BytesPerSecond{7}}};
    c.fused = {PointwiseKernel::kAccumulate};
    const auto time = [&](PointwiseKind kind, Bytes traffic) {
        return kernel_time({Pointwise{kind, traffic}, 1}, c).value;
    };
    EXPECT_DOUBLE_EQ(time(PointwiseKind::kNorm, 1000_B), 2);
    EXPECT_NEAR(time(PointwiseKind::kNorm, 10000_B), 1 + 5, 1e-9);  // half way: 2 kB/s
    EXPECT_DOUBLE_EQ(time(PointwiseKind::kNorm, 300000_B), 101);    // above the table: held
    EXPECT_DOUBLE_EQ(time(PointwiseKind::kNorm, 10_B), 1.01);
    EXPECT_DOUBLE_EQ(time(PointwiseKind::kAdamw, 7000_B), 1001);
    EXPECT_NEAR(time(PointwiseKind::kRope, Bytes{2'000'000'000'000}), 3, 1e-9);  // not in the table
    EXPECT_EQ(time(PointwiseKind::kAccumulate, 1000000_B), 0);                   // fused: no gap either
    EXPECT_NEAR(compute_time({{{Pointwise{PointwiseKind::kAccumulate, 5_B}, 3}, {Gemm{100, 100, 100}, 1}}}, c).value,
                1 + 2e6 / 1e12, 1e-12);
}

TEST(KernelCost, EmptyTablesAreABug) {
    const Calibration empty;
    EXPECT_THROW(kernel_time({Gemm{8, 8, 8}, 1}, empty), InternalError);
    EXPECT_THROW(kernel_time({attention(8, 8), 1}, empty), InternalError);
    EXPECT_THROW(kernel_time({Pointwise{PointwiseKind::kNorm, 8_B}, 1}, empty), InternalError);
    Calibration ragged = round_calibration();
    ragged.attention.pop_back();
    EXPECT_THROW(kernel_time({attention(8, 8), 1}, ragged), InternalError);
}

}  // namespace
}  // namespace sluice
