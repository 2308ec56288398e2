#include "base/units.h"

#include <gtest/gtest.h>

#include "base/format_units.h"

namespace sluice {
namespace {

TEST(Units, DivideToTheRightUnit) {
    EXPECT_DOUBLE_EQ((Bytes{25'000'000'000} / BytesPerSecond{25e9}).value, 1.0);
    EXPECT_DOUBLE_EQ((Flops{312e12} / FlopsPerSecond{312e12}).value, 1.0);
    EXPECT_DOUBLE_EQ(4_GiB / 1_GiB, 4.0);
}

TEST(Units, RoundUpKeepsMultiples) {
    EXPECT_EQ(round_up(0_B, 512_B), 0_B);
    EXPECT_EQ(round_up(1_B, 512_B), 512_B);
    EXPECT_EQ(round_up(512_B, 512_B), 512_B);
}

TEST(Units, FormatsForPeople) {
    EXPECT_EQ(format(0_B), "0 B");
    EXPECT_EQ(format(1023_B), "1023 B");
    EXPECT_EQ(format(80_GiB), "80.0 GiB");
    EXPECT_EQ(format(Bytes{(10_GiB).value + (512_MiB).value}), "10.5 GiB");
    EXPECT_EQ(format(Seconds{849.4}), "849 s");
    EXPECT_EQ(format(Seconds{12.34e-6}), "12.3 us");
    EXPECT_EQ(format(Seconds{0}), "0.00 s");
    EXPECT_EQ(format(BytesPerSecond{25e9}), "25.0 GB/s");
    EXPECT_EQ(format(FlopsPerSecond{312e12}), "312 TFLOP/s");
}

}  // namespace
}  // namespace sluice
