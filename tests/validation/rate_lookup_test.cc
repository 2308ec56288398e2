// The pricing rules seen from validation/ are those of models/, which it must not see.
#include "validation/rate_lookup.h"

#include <gtest/gtest.h>

#include <random>

#include "models/kernel_cost.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

// By size, one row of attention points left out of files.
Calibration by_size() {
    Calibration c = small_scenario().calibration;
    c.gemm = {{100, FlopsPerSecond{1e12}, 0, 0, 0},
              {400, FlopsPerSecond{3e12}, 0, 0, 0},
              {3000, FlopsPerSecond{4e12}, 0, 0, 0}};
    c.attention.clear();
    for (const std::int64_t queries : {64, 512})
        for (const std::int64_t keys : {64, 512, 4096}) {
            const double rate = 1e11 * static_cast<double>(queries + std::max(keys, queries));
            c.attention.push_back({queries, keys, FlopsPerSecond{rate}, FlopsPerSecond{rate * 0.7}, 0});
        }
    return c;
}

// By shape, by width of a head, and pointwise kernels told apart.
Calibration by_shape() {
    Calibration c = by_size();
    c.gemm.clear();
    double rate = 1e11;
    for (const std::int64_t m : {16, 512})
        for (const std::int64_t n : {64, 256, 1024})
            for (const std::int64_t k : {64, 2048}) c.gemm.push_back({0, FlopsPerSecond{rate *= 1.1}, m, n, k});
    const auto points = c.attention;
    c.attention.clear();
    for (const std::int64_t head_dim : {32, 128})
        for (AttentionPoint point : points) {
            point.head_dim = head_dim;
            point.forward = point.forward * (1 + static_cast<double>(head_dim) / 100);
            c.attention.push_back(point);
        }
    c.pointwise_kernels = {{PointwiseKernel::kNorm, 1_KiB, BytesPerSecond{1e9}},
                           {PointwiseKernel::kNorm, 1_MiB, BytesPerSecond{4e9}},
                           {PointwiseKernel::kAdamw, 1_MiB, BytesPerSecond{2e9}}};
    return c;
}

double rate_in(const Calibration& c, const KernelShape& shape) {
    double rate = 0;
    if (const auto* g = std::get_if<Gemm>(&shape)) {
        for (const RateWeight& w : rate_weights(*g, c.gemm)) rate += w.weight * c.gemm[w.point].rate.value;
    } else if (const auto* a = std::get_if<Attention>(&shape)) {
        for (const RateWeight& w : rate_weights(*a, c.attention)) {
            const AttentionPoint& p = c.attention[w.point];
            EXPECT_GE(p.keys, p.queries) << "files do not have others";
            rate += w.weight * (a->pass == Pass::kForward ? p.forward : p.backward).value;
        }
    } else {
        const RateWeights at = rate_weights(std::get<Pointwise>(shape), c.pointwise_kernels);
        if (at.empty()) return c.pointwise.value;
        for (const RateWeight& w : at) rate += w.weight * c.pointwise_kernels[w.point].rate.value;
    }
    return rate;
}

KernelShape random_shape(std::mt19937& random) {
    const auto between = [&](std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
    };
    switch (random() % 3) {
        case 0:
            return Gemm{between(1, 2000), between(1, 2000), between(1, 4000)};
        case 1: {
            const std::int64_t queries = between(1, 2000);
            return Attention{random() % 2 == 0 ? Pass::kForward : Pass::kBackward,
                             random() % 2 == 0,
                             queries,
                             queries + between(0, 6000),
                             8,
                             2,
                             between(16, 200)};
        }
        default:
            return Pointwise{static_cast<PointwiseKind>(random() % 9), Bytes{between(1, 4 << 20)}};
    }
}

TEST(RateLookup, PricesAsTheCostModelDoes) {
    std::mt19937 random(1);
    for (Calibration c : {by_size(), by_shape()}) {
        // What the reader puts where files have nothing.
        for (std::size_t i = c.attention.size(); i-- > 0;)
            if (c.attention[i].keys < c.attention[i].queries)
                c.attention[i].forward = c.attention[i + 1].forward,
                c.attention[i].backward = c.attention[i + 1].backward;
        for (int i = 0; i < 3000; ++i) {
            const KernelShape shape = random_shape(random);
            const Seconds call = kernel_time({shape, 1}, c) - c.kernel_gap;
            ASSERT_NEAR(work_of(shape) / rate_in(c, shape) / call.value, 1, 1e-6) << i << " " << op_class(shape);
        }
    }
}

TEST(RateLookup, WeightsSumToOne) {
    std::mt19937 random(2);
    const Calibration c = by_shape();
    for (int i = 0; i < 500; ++i) {
        const KernelShape shape = random_shape(random);
        RateWeights at;
        if (const auto* g = std::get_if<Gemm>(&shape)) at = rate_weights(*g, c.gemm);
        if (const auto* a = std::get_if<Attention>(&shape)) at = rate_weights(*a, c.attention);
        double sum = 0;
        for (const RateWeight& w : at) sum += w.weight;
        if (std::holds_alternative<Pointwise>(shape)) continue;
        ASSERT_NEAR(sum, 1, 1e-12);
    }
}

}  // namespace
}  // namespace sluice
