#include "runtime/cuda_profile/gpu_timer.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "runtime/cuda/check.h"
#include "runtime/cuda/disturbance.h"

namespace sluice::cuda {
namespace {

constexpr std::size_t kSamples = 5;
constexpr Seconds kOnce{0.1};            // a call that takes longer is timed once
constexpr Seconds kShort{30e-6};         // the host may need as long to put a call on its stream
constexpr std::size_t kShortCalls = 60;  // of a sample: all samples together fit into the queue of a stream
constexpr Seconds kHold{15e-3};

Seconds each_of(std::size_t calls, Event begin, Event end) {
    const auto passed = static_cast<double>(nanoseconds_between(begin, end));
    return Seconds{std::max(1.0, passed) * 1e-9 / static_cast<double>(calls)};
}

}  // namespace

GpuTimer::GpuTimer(Stream stream)
    : stream_(stream), mark_(Bytes{sizeof(std::uint64_t)}, "mark of a timer"), stopwatch_(stream) {}

void GpuTimer::hold(Stream stream, Seconds time) {
    mark_time(stream, mark_.as<std::uint64_t>());
    hold_until(stream, mark_.as<std::uint64_t>(), static_cast<std::uint64_t>(time.value * 1e9));
}

Measurement GpuTimer::time_queued(Stream stream, std::size_t samples, std::size_t calls,
                                  const std::function<void()>& call) {
    const Events events(samples + 1);
    record(events[0], stream);
    for (std::size_t s = 0; s < samples; ++s) {
        for (std::size_t i = 0; i < calls; ++i) call();
        record(events[s + 1], stream);
    }
    check(cudaStreamSynchronize(stream), "work that was timed");
    std::vector<Seconds> times;
    for (std::size_t s = 0; s < samples; ++s) times.push_back(each_of(calls, events[s], events[s + 1]));
    return measurement_of(std::move(times));
}

void GpuTimer::keep_busy(std::function<void()> load, Seconds least) {
    load_ = std::move(load), loads_ = 0;
    if (!load_) return;
    load_();
    stopwatch_.start();
    load_();
    loads_ = static_cast<std::size_t>(std::ceil(least / std::max(stopwatch_.stop(), Seconds{1e-6})));
}

// All on the stream beforehand, or nearly: loads take much longer than the host needs to put the next calls there.
Measurement GpuTimer::time_beside_load(std::size_t samples, std::size_t calls, const std::function<void()>& call) {
    const Events begin(samples), end(samples);
    for (std::size_t s = 0; s < samples; ++s) {
        for (std::size_t i = 0; i < loads_; ++i) load_();
        record(begin[s], stream_);
        for (std::size_t i = 0; i < calls; ++i) call();
        record(end[s], stream_);
    }
    check(cudaStreamSynchronize(stream_), "work that was timed");
    std::vector<Seconds> times;
    for (std::size_t s = 0; s < samples; ++s) times.push_back(each_of(calls, begin[s], end[s]));
    return measurement_of(std::move(times));
}

Measurement GpuTimer::time(const std::function<void()>& call, Seconds at_least) {
    check(cudaStreamSynchronize(cudaStreamLegacy),
          "operands of what is timed");  // which a stream of a part would not wait for
    call();
    stopwatch_.start();
    call();
    const Seconds one = std::max(stopwatch_.stop(), Seconds{1e-6});
    const std::size_t samples = one > kOnce ? 1 : kSamples;
    const double wanted = at_least / (one * static_cast<double>(samples));
    auto calls = static_cast<std::size_t>(std::max(1.0, std::ceil(wanted)));
    if (one < kShort) calls = std::min(calls, kShortCalls);
    if (loads_ > 0) return time_beside_load(samples, calls, call);
    if (one < kShort) hold(stream_, kHold);
    return time_queued(stream_, samples, calls, call);
}

}  // namespace sluice::cuda
