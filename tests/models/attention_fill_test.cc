// How full forward attention's rounds of tiles are, and what that costs.
#include "models/attention_fill.h"

#include <gtest/gtest.h>

#include "models/kernel_cost.h"

namespace sluice {
namespace {

constexpr AttentionTiles kTiles{128, 8192, 132, 24};

Attention forward(std::int64_t heads, std::int64_t queries) {
    return {Pass::kForward, true, queries, 500000, heads, heads, 128};
}

Calibration calibration() {
    Calibration c;
    c.attention = {{1, 1, FlopsPerSecond{600e12}, FlopsPerSecond{500e12}}};
    c.attention_tiles = kTiles;
    return c;
}

double rate(const Attention& a, const Calibration& c) { return (flops(a) / kernel_time({a, 1}, c)).value / 1e12; }

TEST(AttentionFill, IsTilesOverPlacesInFullRounds) {
    EXPECT_EQ(attention_fill(forward(132, 128), kTiles), 1);
    EXPECT_EQ(attention_fill(forward(1, 128), kTiles), 1.0 / 132);
    EXPECT_DOUBLE_EQ(attention_fill(forward(4, 5632), kTiles), 176.0 / 264);
    EXPECT_DOUBLE_EQ(attention_fill(forward(4, 5633), kTiles), 180.0 / 264) << "a tile for one query";
    EXPECT_DOUBLE_EQ(attention_fill(forward(4, 8320), kTiles), 260.0 / 396) << "a stretch, and one of 128 queries";
    EXPECT_EQ(attention_fill(forward(4, 5632), AttentionTiles{}), 1);
}

// One H200, rank 112 of the 65B/640K/128 plan, TFLOP/s by queries of 4 heads (validation/h200.md). At 24 heads the
// table has 590 there.
TEST(AttentionFill, ForetellsWhatAShardWithFewHeadsTook) {
    Calibration c = calibration();
    c.attention.front().forward = FlopsPerSecond{590e12};
    c.power_limit = {1.083, 1.175, 1.184, 0.6542, Seconds{0.0286}};
    for (const auto& [queries, measured] : {std::pair(5632, 459.0),
                                            {6144, 479.0},
                                            {6784, 520.0},
                                            {7168, 535.0},
                                            {7680, 553.0},
                                            {8192, 571.0},
                                            {8704, 460.0},
                                            {9856, 497.0},
                                            {11904, 564.0},
                                            {13312, 513.0},
                                            {20096, 575.0}})
        EXPECT_NEAR(rate(forward(4, queries), c) / measured, 1, 0.07) << queries;
}

TEST(AttentionFill, NothingChangesForTheTablesHeadsBackwardOrWithoutTiles) {
    Calibration c = calibration();
    EXPECT_DOUBLE_EQ(rate(forward(24, 5632), c), 600);
    Attention backward = forward(4, 5632);
    backward.pass = Pass::kBackward;
    EXPECT_DOUBLE_EQ(rate(backward, c), 500);
    c.attention_tiles = {};
    EXPECT_DOUBLE_EQ(rate(forward(4, 5632), c), 600);
}

// At full clock idle multiprocessors leave nothing to the others that these do not have already.
TEST(AttentionFill, FullClockIsTheTablesFullClockByTheFill) {
    Calibration c = calibration();
    c.power_limit = {1, 1.2, 1.2, 0.5, Seconds{0.03}};
    const Attention few = forward(4, 5632), many = forward(24, 5632);
    const auto full = [&](const Attention& a) {
        return full_clock_time({{{a, 1}}}, c) / (flops(a) / FlopsPerSecond{600e12});
    };
    EXPECT_NEAR(full(many), 1 / 1.2, 1e-12);
    EXPECT_NEAR(full(few) / full(many), attention_fill(many, kTiles) / attention_fill(few, kTiles), 1e-12);
}

}  // namespace
}  // namespace sluice
