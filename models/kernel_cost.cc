#include "models/kernel_cost.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/attention_fill.h"
#include "models/log_interpolation.h"

namespace sluice {
namespace {

// Counts are turned into doubles before they are multiplied: the pairs of a 4M-token sequence do not fit 2^53 exactly,
// but int64 products of three dimensions could overflow.
double as_double(std::int64_t v) { return static_cast<double>(v); }

// How many points from the first on have its `value`.
template <class Point, class Value>
std::size_t run_length(std::span<const Point> points, Value value) {
    std::size_t length = 1;
    while (length < points.size() && value(points[length]) == value(points[0])) ++length;
    return length;
}

// A rate in a full grid of points, stored row by row: blends between the grid's values along the first dimension, and
// so on with the next in the rows picked out, down to a single point.
template <class Point, class Rate, class Value, class... Values>
double grid_rate(std::span<const Point> points, Rate rate, std::pair<double, Value> first,
                 std::pair<double, Values>... others) {
    const std::size_t row = run_length(points, first.second);
    SLUICE_CHECK(points.size() % row == 0, "the points of a calibration's table form a full grid");
    const LogPosition at = log_position(first.first, points.size() / row,
                                        [&](std::size_t i) { return as_double(first.second(points[i * row])); });
    const auto in_row = [&](std::size_t i) {
        const std::span<const Point> rest = points.subspan(i * row, row);
        if constexpr (sizeof...(others) == 0)
            return rate(rest[0]);
        else
            return grid_rate(rest, rate, others...);
    };
    return at.weight == 0 ? in_row(at.low) : blend(in_row(at.low), in_row(at.high), at.weight);
}

template <class Class, class Field>
auto along(std::int64_t x, Field Class::*field) {
    return std::pair(as_double(x), [=](const Class& point) { return point.*field; });
}

FlopsPerSecond gemm_rate(const Gemm& g, const std::vector<GemmPoint>& table) {
    SLUICE_CHECK(!table.empty(), "the calibration has no GEMM rates; reading one must refuse that");
    if (table.front().m > 0)
        return FlopsPerSecond{grid_rate(
            std::span(table), [](const GemmPoint& p) { return p.rate.value; }, along(g.m, &GemmPoint::m),
            along(g.n, &GemmPoint::n), along(g.k, &GemmPoint::k))};
    const double size = std::cbrt(as_double(g.m) * as_double(g.n) * as_double(g.k));
    const LogPosition at = log_position(size, table.size(), [&](std::size_t i) { return table[i].size; });
    return FlopsPerSecond{blend(table[at.low].rate.value, table[at.high].rate.value, at.weight)};
}

FlopsPerSecond attention_rate(const Attention& a, const std::vector<AttentionPoint>& table) {
    SLUICE_CHECK(!table.empty(), "the calibration has no attention rates; reading one must refuse that");
    const auto rate = [&](const AttentionPoint& p) {
        return (a.pass == Pass::kForward ? p.forward : p.backward).value;
    };
    return FlopsPerSecond{grid_rate(std::span(table), rate, along(a.head_dim, &AttentionPoint::head_dim),
                                    along(a.queries, &AttentionPoint::queries), along(a.keys, &AttentionPoint::keys))};
}

PointwiseKernel kernel_of(PointwiseKind kind) {
    switch (kind) {
        case PointwiseKind::kNorm:
            return PointwiseKernel::kNorm;
        case PointwiseKind::kRope:
            return PointwiseKernel::kRope;
        case PointwiseKind::kActivation:
            return PointwiseKernel::kActivation;
        case PointwiseKind::kResidual:
            return PointwiseKernel::kResidual;
        case PointwiseKind::kEmbedding:
            return PointwiseKernel::kEmbedding;
        case PointwiseKind::kCrossEntropy:
            return PointwiseKernel::kCrossEntropy;
        case PointwiseKind::kAccumulate:
            return PointwiseKernel::kAccumulate;
        case PointwiseKind::kAdamw:
            return PointwiseKernel::kAdamw;
        case PointwiseKind::kOther:
            return PointwiseKernel::kOther;
    }
    SLUICE_CHECK(false, "a pointwise kernel without a rate");
}

BytesPerSecond pointwise_rate(const Pointwise& p, const Calibration& c) {
    const PointwiseKernel kernel = kernel_of(p.kind);
    const auto is_kernel = [&](const PointwisePoint& point) { return point.kernel == kernel; };
    const auto first = std::find_if(c.pointwise_kernels.begin(), c.pointwise_kernels.end(), is_kernel);
    if (first == c.pointwise_kernels.end()) return c.pointwise;
    const std::span<const PointwisePoint> table(first, std::find_if_not(first, c.pointwise_kernels.end(), is_kernel));
    const LogPosition at = log_position(as_double(p.traffic.value), table.size(),
                                        [&](std::size_t i) { return as_double(table[i].traffic.value); });
    return BytesPerSecond{blend(table[at.low].rate.value, table[at.high].rate.value, at.weight)};
}

bool is_fused(const KernelShape& shape, const Calibration& calibration) {
    const auto* p = std::get_if<Pointwise>(&shape);
    const auto& fused = calibration.fused;
    return p != nullptr && !fused.empty() && std::find(fused.begin(), fused.end(), kernel_of(p->kind)) != fused.end();
}

// Work without operations takes no time even where a rate is 0 or absent.
Seconds time_of(Flops work, FlopsPerSecond rate) { return work.value == 0 ? Seconds{0} : work / rate; }

struct CallTime {
    const Calibration& calibration;

    Seconds operator()(const Gemm& g) const { return time_of(flops(g), gemm_rate(g, calibration.gemm)); }
    Seconds operator()(const Attention& a) const {
        return time_of(flops(a), attention_rate(a, calibration.attention)) * fill_factor(a, calibration);
    }
    Seconds operator()(const Pointwise& p) const {
        const BytesPerSecond rate = pointwise_rate(p, calibration);
        SLUICE_CHECK(rate.value > 0, "the calibration has no rate of memory-bound kernels");
        return p.traffic / rate;
    }
};

}  // namespace

Seconds kernel_time(const Kernel& kernel, const Calibration& calibration) {
    if (is_fused(kernel.shape, calibration)) return Seconds{0};
    const Seconds call = std::visit(CallTime{calibration}, kernel.shape) + calibration.kernel_gap;
    return call * static_cast<double>(kernel.count);
}

Seconds compute_time(const Compute& compute, const Calibration& calibration) {
    Seconds sum{0};
    for (const Kernel& kernel : compute.kernels) sum += kernel_time(kernel, calibration);
    return sum;
}

namespace {

struct FullClockGain {
    const Calibration& calibration;

    double operator()(const Gemm&) const { return calibration.power_limit.gemm; }
    double operator()(const Attention& a) const {
        const PowerLimit& limit = calibration.power_limit;
        if (a.pass == Pass::kBackward) return limit.attention_backward;
        return limit.attention_forward * fill_factor(a, calibration) /
               fill_factor_at_full_clock(a, calibration.attention_tiles);
    }
    double operator()(const Pointwise&) const { return 1; }
};

}  // namespace

Seconds full_clock_time(const Compute& compute, const Calibration& calibration) {
    Seconds sum{0};
    for (const Kernel& kernel : compute.kernels)
        sum += kernel_time(kernel, calibration) / std::visit(FullClockGain{calibration}, kernel.shape);
    return sum;
}

Seconds memory_bound_time(const Compute& compute, const Calibration& calibration) {
    Seconds sum{0};
    for (const Kernel& kernel : compute.kernels)
        if (std::holds_alternative<Pointwise>(kernel.shape)) sum += kernel_time(kernel, calibration);
    return sum;
}

}  // namespace sluice
