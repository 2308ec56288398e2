#include "runtime/profile/measurement.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"

namespace sluice {

Seconds thread_time() {
    timespec now{};
    SLUICE_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0, "a thread can read its own clock");
    return Seconds{static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)};
}

Measurement measurement_of(std::vector<Seconds> samples) {
    SLUICE_CHECK(!samples.empty(), "a measurement has samples");
    std::sort(samples.begin(), samples.end());
    const auto at = [&](double fraction) {
        return samples[static_cast<std::size_t>(std::lround(fraction * static_cast<double>(samples.size() - 1)))];
    };
    return {at(0.5), at(0.1), at(0.9)};
}

Measurement measure(const std::function<void()>& call, const MeasureEffort& effort) {
    struct Sample {
        Seconds time, wall;  // of a call; of all
    };
    const auto timed = [&](std::size_t calls) {
        const auto wall = std::chrono::steady_clock::now();
        const Seconds begin = thread_time();
        for (std::size_t i = 0; i < calls; ++i) call();
        const Seconds spent = thread_time() - begin;
        const Seconds passed{std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count()};
        return Sample{spent / static_cast<double>(calls), passed};
    };
    const Seconds first = timed(1).time;
    if (first > effort.longest) return measurement_of({first});
    const Seconds warm = timed(1).time;
    const double wanted = effort.sample / std::max(warm, Seconds{1e-9});
    const auto calls = static_cast<std::size_t>(std::max(1.0, std::ceil(wanted)));
    std::vector<Seconds> all, undisturbed;
    Seconds spent{0};
    const auto more = [&] { return all.size() < effort.fewest ? spent < effort.longest : spent < effort.enough; };
    do {
        const Sample sample = timed(calls);
        const Seconds on_core = sample.time * static_cast<double>(calls);
        all.push_back(sample.time);
        if (sample.wall < on_core * 1.05 + Seconds{5e-6}) undisturbed.push_back(sample.time);
        spent += on_core;
    } while (more());
    return measurement_of(std::move(undisturbed.size() >= effort.fewest ? undisturbed : all));
}

SampleSpread spread_of(std::vector<double> spreads) {
    if (spreads.empty()) return {};
    std::sort(spreads.begin(), spreads.end());
    return {spreads[spreads.size() / 2], spreads.back(), spreads.size()};
}

Measurement without(const Measurement& whole, Seconds part) {
    const Seconds least = whole.median * 0.1;
    const Seconds less = std::min(part, whole.median - least);
    const auto left = [&](Seconds time) { return std::max(time - less, least); };
    return {left(whole.median), left(whole.p10), left(whole.p90)};
}

Measurement operator+(const Measurement& a, const Measurement& b) {
    return {a.median + b.median, a.p10 + b.p10, a.p90 + b.p90};
}

Measurement operator*(const Measurement& a, double factor) {
    return {a.median * factor, a.p10 * factor, a.p90 * factor};
}

}  // namespace sluice
