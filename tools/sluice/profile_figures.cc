#include "tools/sluice/profile_figures.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

double percent(double ratio) { return 100 * ratio; }

}  // namespace

std::string spread_text(const SampleSpread& s) {
    return fmt::format("{} figures, spread {:.1f}% (median), {:.0f}% (worst)", s.figures, percent(s.median),
                       percent(s.worst));
}

std::string error_text(const PredictionError& e) {
    return fmt::format("{} other shapes foretold within {:.1f}% (median), {:.1f}% (9 of 10), leaning {:+.1f}%",
                       e.shapes, percent(e.median_absolute), percent(e.p90_absolute), percent(e.median));
}

std::pair<FlopsPerSecond, FlopsPerSecond> gemm_range(const Calibration& c) {
    const auto [low, high] = std::minmax_element(
        c.gemm.begin(), c.gemm.end(), [](const GemmPoint& a, const GemmPoint& b) { return a.rate < b.rate; });
    return {low->rate, high->rate};
}

std::pair<FlopsPerSecond, FlopsPerSecond> attention_range(const Calibration& c) {
    std::pair range{c.attention.front().forward, c.attention.front().forward};
    for (const AttentionPoint& p : c.attention)
        for (const FlopsPerSecond rate : {p.forward, p.backward})
            range = {std::min(range.first, rate), std::max(range.second, rate)};
    return range;
}

std::pair<BytesPerSecond, BytesPerSecond> pointwise_range(const Calibration& c) {
    const auto [low, high] =
        std::minmax_element(c.pointwise_kernels.begin(), c.pointwise_kernels.end(),
                            [](const PointwisePoint& a, const PointwisePoint& b) { return a.rate < b.rate; });
    return {low->rate, high->rate};
}

}  // namespace sluice
