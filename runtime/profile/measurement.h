// How long a call takes, from many calls.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/units.h"

namespace sluice {

// Time that the calling thread has had a core: what other programs take of the machine meanwhile does not count.
Seconds thread_time();

// How much trouble to take over one figure.
struct MeasureEffort {
    Seconds sample{1e-3};    // calls are repeated until a sample is at least so long
    Seconds enough{30e-3};   // of samples, in all ...
    std::size_t fewest = 5;  // ... and at least so many of them,
    Seconds longest{0.25};   // unless they take longer than this in all; a first call that does is the only sample
};

// Of samples, each the mean of the calls in it.
struct Measurement {
    Seconds median{}, p10{}, p90{};

    double spread() const { return median.value > 0 ? (p90 - p10) / median : 0; }
};

Measurement measurement_of(std::vector<Seconds> samples);  // of at least one

// Thread time of call(), which does the same work every time. The first call warms up: pages, caches, the library's
// buffers. Samples in which the thread lost its core, and found cold caches when it came back, are left out where enough
// others are left.
Measurement measure(const std::function<void()>& call, const MeasureEffort& effort);

// (p90 - p10) / median of the samples of one figure: of the median figure of a group, and of the worst.
struct SampleSpread {
    double median = 0, worst = 0;
    std::size_t figures = 0;
};
SampleSpread spread_of(std::vector<double> spreads);

// What is left of `whole` without a part of it that was measured by itself: at least a tenth of the whole.
Measurement without(const Measurement& whole, Seconds part);

// Sums what has been measured: parts that follow one another.
Measurement operator+(const Measurement& a, const Measurement& b);
Measurement operator*(const Measurement& a, double factor);

}  // namespace sluice
