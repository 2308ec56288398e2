#include "runtime/cpu/exponential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sluice {
namespace {

TEST(Exponential, WithinTwoUnitsInTheLastPlaceOverItsRange) {
    double worst = 0;
    for (std::uint32_t bits = 0; bits < 0x42b00000U; bits += 331)  // 0 to 88
        for (const std::uint32_t sign : {0U, 0x80000000U}) {
            const float x = std::bit_cast<float>(bits | sign);
            if (x < -87.33F) continue;
            const double want = std::exp(static_cast<double>(x));
            const double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
            worst = std::max(worst, std::abs(static_cast<double>(exponential(x)) - want) / ulp);
        }
    EXPECT_LT(worst, 2);
}

TEST(Exponential, Edges) {
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(exponential(0.0F), 1.0F);
    EXPECT_EQ(exponential(-0.0F), 1.0F);
    EXPECT_EQ(exponential(-infinity), 0.0F);
    EXPECT_EQ(exponential(-87.4F), 0.0F);
    EXPECT_EQ(exponential(std::numeric_limits<float>::lowest()), 0.0F);
    EXPECT_GT(exponential(-87.33F), 0.0F);
    EXPECT_EQ(exponential(infinity), infinity);
    EXPECT_EQ(exponential(89.0F), infinity);
    EXPECT_TRUE(std::isfinite(exponential(88.7F)));
    EXPECT_TRUE(std::isnan(exponential(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace sluice
