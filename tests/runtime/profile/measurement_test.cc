#include "runtime/profile/measurement.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

TEST(Measurement, QuantilesAreThoseOfTheSamples) {
    std::vector<Seconds> samples;
    for (int i = 20; i >= 0; --i) samples.push_back(Seconds{static_cast<double>(i)});
    const Measurement m = measurement_of(samples);
    EXPECT_EQ(m.median, Seconds{10});
    EXPECT_EQ(m.p10, Seconds{2});
    EXPECT_EQ(m.p90, Seconds{18});
    EXPECT_DOUBLE_EQ(m.spread(), 1.6);
    const Measurement one = measurement_of({Seconds{3}});
    EXPECT_EQ(one.median, Seconds{3});
    EXPECT_EQ(one.spread(), 0);
    EXPECT_THROW(measurement_of({}), InternalError);
}

TEST(Measurement, PartsAddUp) {
    const Measurement sum =
        Measurement{Seconds{2}, Seconds{1}, Seconds{4}} + Measurement{Seconds{20}, Seconds{10}, Seconds{40}};
    EXPECT_EQ(sum.median, Seconds{22});
    EXPECT_EQ((sum * 0.5).p10, Seconds{5.5});
    EXPECT_EQ((sum * 0.5).p90, Seconds{22});
}

// Asked for samples of 1 ms, it makes enough calls of a few microseconds; the time of a call that does twice the work
// is not smaller. How long it takes is not asserted.
TEST(Measurement, RepeatsShortCallsAndTakesLongOnesOnce) {
    volatile double sink = 0;
    std::size_t calls = 0;
    const auto work = [&](int rounds) {
        return [&calls, &sink, rounds] {
            ++calls;
            for (int i = 0; i < rounds; ++i) sink = sink + 1e-9;
        };
    };
    const Measurement some = measure(work(1000), {Seconds{1e-4}, Seconds{1e-3}, 3, Seconds{1}});
    EXPECT_GT(calls, 30U);
    EXPECT_GT(some.median.value, 0);
    EXPECT_LE(some.p10, some.median);
    EXPECT_LE(some.median, some.p90);
    calls = 0;
    measure(work(100000), {Seconds{1e-4}, Seconds{1e-3}, 3, Seconds{1e-9}});
    EXPECT_EQ(calls, 1U);  // longer than the longest
}

}  // namespace
}  // namespace sluice
