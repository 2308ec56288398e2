#include "runtime/profile/power_limit_of.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr double kLeastGain = 1.02;
constexpr double kFull = 0.95, kNone = 0.05;  // of the gain: beyond them a share of busy time says nothing

// The slope of g = (1 - busy share) / (1 - busy) through the figures that lie on it, by least squares; where none does,
// a step between those with the whole gain and those with none.
double busy_share_of(const PowerFigures& f) {
    double product = 0, squares = 0, whole = 0, none = 1;
    for (const PowerFigures::Paced& p : f.paced) {
        const double g = (f.mix.steady - p.mix) / (f.mix.steady - f.mix.paused);
        if (g >= kFull) whole = std::max(whole, p.busy);
        if (g <= kNone) none = std::min(none, p.busy);
        if (g >= kFull || g <= kNone) continue;
        product += (1 - p.busy) * g, squares += g * g;
    }
    const double busy = squares > 0 ? 1 - product / squares : (whole + none) / 2;
    return std::clamp(busy, 0.0, 0.99);
}

}  // namespace

PowerLimit power_limit_of(const PowerFigures& f) {
    if (f.mix.gain() < kLeastGain || f.half.value <= 0) return {};
    PowerLimit limit{f.gemm.gain(), f.attention_forward.gain(), f.attention_backward.gain(), busy_share_of(f), {}};
    limit.window = f.half / std::log(2 / (1 - limit.busy));
    return limit;
}

}  // namespace sluice
