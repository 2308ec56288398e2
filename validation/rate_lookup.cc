#include "validation/rate_lookup.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <variant>

#include "schedule/flops.h"

namespace sluice {
namespace {

double as_double(std::int64_t v) { return static_cast<double>(v); }

struct Position {
    std::size_t low = 0, high = 0;
    double weight = 0;  // of high
};

template <class SizeAt>
Position position(double x, std::size_t count, SizeAt size_at) {
    if (!(x > size_at(0))) return {0, 0, 0};
    std::size_t high = 1;
    while (high < count && size_at(high) < x) ++high;
    if (high == count) return {count - 1, count - 1, 0};
    if (!(x < size_at(high))) return {high, high, 0};
    const double below = size_at(high - 1);
    return {high - 1, high, std::log(x / below) / std::log(size_at(high) / below)};
}

// The points of a full grid, stored row by row, that a rate at these values is made of.
template <class Point>
class Grid {
public:
    using Dimension = std::pair<double, std::int64_t Point::*>;
    explicit Grid(const std::vector<Point>& points) : points_(points) {}

    RateWeights weights(std::span<const Dimension> dimensions) {
        result_.clear();
        add(0, points_.size(), 1, dimensions);
        return result_;
    }

private:
    void add(std::size_t first, std::size_t count, double weight, std::span<const Dimension> dimensions) {
        if (weight <= 0) return;
        if (dimensions.empty()) return result_.push_back({first, weight});
        const auto [x, field] = dimensions.front();
        std::size_t row = 1;
        while (row < count && points_[first + row].*field == points_[first].*field) ++row;
        const Position at =
            position(x, count / row, [&, f = field](std::size_t i) { return as_double(points_[first + i * row].*f); });
        add(first + at.low * row, row, weight * (1 - at.weight), dimensions.subspan(1));
        add(first + at.high * row, row, weight * at.weight, dimensions.subspan(1));
    }

    const std::vector<Point>& points_;
    RateWeights result_;
};

template <class SizeAt>
RateWeights line_weights(double x, std::size_t count, SizeAt size_at) {
    if (count == 0) return {};
    const Position at = position(x, count, size_at);
    if (at.weight <= 0) return {{at.low, 1}};
    return {{at.low, 1 - at.weight}, {at.high, at.weight}};
}

}  // namespace

RateWeights rate_weights(const Gemm& g, const std::vector<GemmPoint>& table) {
    if (table.front().m == 0)
        return line_weights(std::cbrt(as_double(g.m) * as_double(g.n) * as_double(g.k)), table.size(),
                            [&](std::size_t i) { return table[i].size; });
    const Grid<GemmPoint>::Dimension dimensions[] = {
        {as_double(g.m), &GemmPoint::m}, {as_double(g.n), &GemmPoint::n}, {as_double(g.k), &GemmPoint::k}};
    return Grid(table).weights(dimensions);
}

RateWeights rate_weights(const Attention& a, const std::vector<AttentionPoint>& table) {
    const Grid<AttentionPoint>::Dimension dimensions[] = {{as_double(a.head_dim), &AttentionPoint::head_dim},
                                                          {as_double(a.queries), &AttentionPoint::queries},
                                                          {as_double(a.keys), &AttentionPoint::keys}};
    RateWeights weights = Grid(table).weights(dimensions);
    for (RateWeight& w : weights)
        while (table[w.point].keys < table[w.point].queries && w.point + 1 < table.size()) ++w.point;
    return weights;
}

RateWeights rate_weights(const Pointwise& p, const std::vector<PointwisePoint>& table) {
    const auto is_kernel = [&](const PointwisePoint& point) { return point.kernel == pointwise_kernel(p.kind); };
    const auto first = std::find_if(table.begin(), table.end(), is_kernel);
    const auto last = std::find_if_not(first, table.end(), is_kernel);
    RateWeights weights =
        line_weights(as_double(p.traffic.value), static_cast<std::size_t>(last - first),
                     [&](std::size_t i) { return as_double(first[static_cast<std::ptrdiff_t>(i)].traffic.value); });
    for (RateWeight& w : weights) w.point += static_cast<std::size_t>(first - table.begin());
    return weights;
}

RateWeights rate_weights(Bytes message, const std::vector<BandwidthPoint>& table) {
    return line_weights(as_double(message.value), table.size(),
                        [&](std::size_t i) { return as_double(table[i].size.value); });
}

PointwiseKernel pointwise_kernel(PointwiseKind kind) {
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
    return PointwiseKernel::kOther;
}

double work_of(const KernelShape& shape) {
    const auto* pointwise = std::get_if<Pointwise>(&shape);
    return pointwise != nullptr ? as_double(pointwise->traffic.value) : flops(shape).value;
}

}  // namespace sluice
