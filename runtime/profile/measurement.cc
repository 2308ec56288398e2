#include "runtime/profile/measurement.h"

#include <time.h>

#include <algorithm>
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
    const auto timed = [&](std::size_t calls) {
        const Seconds begin = thread_time();
        for (std::size_t i = 0; i < calls; ++i) call();
        return (thread_time() - begin) / static_cast<double>(calls);
    };
    const Seconds first = timed(1);
    if (first > effort.longest) return measurement_of({first});
    const Seconds warm = timed(1);
    const double wanted = effort.sample / std::max(warm, Seconds{1e-9});
    const auto calls = static_cast<std::size_t>(std::max(1.0, std::ceil(wanted)));
    std::vector<Seconds> samples;
    Seconds spent{0};
    const auto more = [&] { return samples.size() < effort.fewest ? spent < effort.longest : spent < effort.enough; };
    do {
        samples.push_back(timed(calls));
        spent += samples.back() * static_cast<double>(calls);
    } while (more());
    return measurement_of(std::move(samples));
}

Measurement operator+(const Measurement& a, const Measurement& b) {
    return {a.median + b.median, a.p10 + b.p10, a.p90 + b.p90};
}

Measurement operator*(const Measurement& a, double factor) {
    return {a.median * factor, a.p10 * factor, a.p90 * factor};
}

}  // namespace sluice
