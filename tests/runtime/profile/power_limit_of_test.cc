// From times that a known limit would give, the limit.
#include "runtime/profile/power_limit_of.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// A mix of 6 ms at full clock that takes 6.9 without pause.
PowerFigures figures(double busy, Seconds window) {
    PowerFigures f;
    f.gemm = {Seconds{1.06}, Seconds{1}};
    f.attention_forward = {Seconds{1.2}, Seconds{1}};
    f.attention_backward = {Seconds{1.1}, Seconds{1}};
    f.mix = {Seconds{6.9e-3}, Seconds{6e-3}};
    for (const double share : {0.6, 0.7, 0.8, 0.9}) {
        const double g = std::clamp((1 - share) / (1 - busy), 0.0, 1.0);
        f.paced.push_back({share, f.mix.steady - (f.mix.steady - f.mix.paused) * g});
    }
    f.half = window * std::log(2 / (1 - busy));
    return f;
}

TEST(PowerLimitOf, FindsTheLimitThatGaveTheTimes) {
    for (const double busy : {0.3, 0.65, 0.75, 0.85}) {
        const PowerLimit limit = power_limit_of(figures(busy, Seconds{0.03}));
        EXPECT_NEAR(limit.busy, busy, 1e-9);
        EXPECT_NEAR(limit.window.value, 0.03, 1e-9);
        EXPECT_DOUBLE_EQ(limit.gemm, 1.06);
        EXPECT_DOUBLE_EQ(limit.attention_forward, 1.2);
        EXPECT_DOUBLE_EQ(limit.attention_backward, 1.1);
    }
}

TEST(PowerLimitOf, AStepBetweenSharesIsHalfWay) {
    PowerFigures f = figures(0.5, Seconds{0.03});
    for (auto& p : f.paced) p.mix = p.busy < 0.75 ? f.mix.paused : f.mix.steady;
    EXPECT_NEAR(power_limit_of(f).busy, 0.75, 1e-12);
}

TEST(PowerLimitOf, NoneWhereNothingIsGained) {
    PowerFigures same = figures(0.5, Seconds{0.03});
    same.mix.paused = same.mix.steady * 0.99;
    EXPECT_EQ(power_limit_of(same), PowerLimit{});
    PowerFigures never = figures(0.5, Seconds{0.03});
    never.half = {};
    EXPECT_EQ(power_limit_of(never), PowerLimit{});
}

TEST(PowerLimitOf, AKernelThatPausesDoNotHelpGainsNothing) {
    PowerFigures f = figures(0.5, Seconds{0.03});
    f.gemm.paused = f.gemm.steady * 1.01;
    EXPECT_EQ(power_limit_of(f).gemm, 1);
}

}  // namespace
}  // namespace sluice
