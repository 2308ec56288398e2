#include "runtime/cuda_profile/power_bench.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/cuda/check.h"

namespace sluice::cuda {
namespace {

constexpr Seconds kPause{0.2};   // several windows of the limit
constexpr Seconds kSteady{0.4};  // until the clock has settled under load
constexpr double kShares[] = {0.6, 0.7, 0.8, 0.9};

Seconds between(Event from, Event to) { return Seconds{static_cast<double>(nanoseconds_between(from, to)) * 1e-9}; }

Seconds median_of(std::vector<Seconds> times) { return measurement_of(std::move(times)).median; }

class PowerBench {
public:
    PowerBench(StepMix& mix, GpuTimer& timer, bool quick) : mix_(mix), timer_(timer), rounds_(quick ? 2 : 5) {
        mix_.put();
        const Events events(2);
        one_mix_ = once([&] { mix_.put(); }, events);
    }

    PowerFigures measure() {
        PowerFigures f;
        f.gemm = both([&] { mix_.product(); });
        f.attention_forward = both([&] { mix_.attention_forward(); });
        f.attention_backward = both([&] { mix_.attention_backward(); });
        f.mix = both([&] { mix_.put(); });
        for (const double share : kShares) f.paced.push_back(paced(f.mix.paused, share));
        f.half = half(f.mix);
        return f;
    }

    SteadyTimes steady() {
        return {timed([&] { mix_.product(); }, false), timed([&] { mix_.attention_forward(); }, false),
                timed([&] { mix_.attention_backward(); }, false)};
    }

private:
    using Call = std::function<void()>;

    Seconds once(const Call& call, const Events& events) {
        record(events[0], timer_.stream());
        call();
        record(events[1], timer_.stream());
        wait();
        return between(events[0], events[1]);
    }

    PausedCall both(const Call& call) { return {timed(call, false), timed(call, true)}; }

    // One call after a pause, or after the mix again and again.
    Seconds timed(const Call& call, bool paused) {
        std::vector<Seconds> times;
        const Events events(2);
        for (std::size_t r = 0; r < rounds_; ++r) {
            if (paused)
                timer_.hold(timer_.stream(), kPause);
            else
                load();
            times.push_back(once(call, events));
        }
        return median_of(std::move(times));
    }

    void load() {
        for (Seconds put{0}; put < kSteady; put += one_mix_) mix_.put();
    }

    // Means over the second half: the first lets the clock settle.
    PowerFigures::Paced paced(Seconds mix, double share) {
        const auto turns = std::max<std::size_t>(8, static_cast<std::size_t>(kSteady * 2 * share / mix));
        const Events begin(turns), end(turns);
        for (std::size_t t = 0; t < turns; ++t) {
            record(begin[t], timer_.stream());
            mix_.put();
            record(end[t], timer_.stream());
            timer_.hold(timer_.stream(), mix * (1 / share - 1));
        }
        wait();
        Seconds busy{0};
        for (std::size_t t = turns / 2; t + 1 < turns; ++t) busy += between(begin[t], end[t]);
        const auto counted = static_cast<double>(turns - 1 - turns / 2);
        return {busy / between(begin[turns / 2], begin[turns - 1]), busy / counted};
    }

    Seconds half(const PausedCall& mix) {
        std::vector<Seconds> found;
        for (std::size_t r = 0; r < rounds_; ++r) found.push_back(half_once(mix));
        return median_of(std::move(found));
    }

    Seconds half_once(const PausedCall& mix) {
        const auto turns = std::max<std::size_t>(8, static_cast<std::size_t>(kSteady / mix.paused));
        const Events events(turns + 1);
        timer_.hold(timer_.stream(), kPause);
        record(events[0], timer_.stream());
        for (std::size_t t = 0; t < turns; ++t) mix_.put(), record(events[t + 1], timer_.stream());
        wait();
        const Seconds middle = (mix.steady + mix.paused) / 2;
        for (std::size_t t = 0; t < turns; ++t)
            if (between(events[t], events[t + 1]) >= middle)
                return (between(events[0], events[t]) + between(events[0], events[t + 1])) / 2;
        return {};
    }

    void wait() { check(cudaStreamSynchronize(timer_.stream()), "work that was timed"); }

    StepMix& mix_;
    GpuTimer& timer_;
    const std::size_t rounds_;
    Seconds one_mix_{};
};

}  // namespace

PowerFigures power_figures(StepMix& mix, GpuTimer& timer, bool quick) {
    check(cudaStreamSynchronize(cudaStreamLegacy), "operands of what is timed");
    return PowerBench(mix, timer, quick).measure();
}

SteadyTimes steady_times(StepMix& mix, GpuTimer& timer, bool quick) {
    check(cudaStreamSynchronize(cudaStreamLegacy), "operands of what is timed");
    return PowerBench(mix, timer, quick).steady();
}

}  // namespace sluice::cuda
