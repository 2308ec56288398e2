#include "runtime/cuda_profile/transfer_bench.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "runtime/cuda/check.h"
#include "runtime/cuda/disturbance.h"
#include "runtime/cuda/sustained_call.h"

namespace sluice::cuda {
namespace {

constexpr Bytes kLargest = 256_MiB;
constexpr Bytes kSmall = 64_KiB;
constexpr Seconds kHold{15e-3};
constexpr Seconds kPause{0.1};  // the limit of power, which copies count for, too, is another figure (power_bench.h)

Seconds pin(Bytes size, PinnedMemory& memory) {
    const auto begin = std::chrono::steady_clock::now();
    memory = PinnedMemory(size, "memory to measure copies with");
    return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
}

Seconds median_of(std::vector<Seconds> times) { return measurement_of(std::move(times)).median; }

}  // namespace

TransferBench::TransferBench(GpuTimer& timer, Bytes host_memory, bool quick)
    : timer_(timer), quick_(quick), device_(kLargest * 2, "memory to measure copies with") {
    const Bytes wanted = quick ? kLargest * 2 : std::min(4_GiB, round_up(host_memory / 16, 2_MiB));
    pinning_ = pin(std::max(wanted, kLargest * 2), host_);
}

// Outward and inward copies have halves of their own on both sides.
void TransferBench::copy(Direction direction, Stream stream, Bytes size) {
    const bool out = direction == Direction::kOut;
    const auto half = static_cast<std::size_t>(out ? 0 : kLargest.value);
    std::byte* const host = host_.bytes().data() + half;
    std::byte* const device = device_.bytes().data() + half;
    check(cudaMemcpyAsync(out ? host : device, out ? device : host, static_cast<std::size_t>(size.value),
                          cudaMemcpyDefault, stream),
          "a copy that is measured");
}

Measurement TransferBench::alone(Direction direction, Bytes size) {
    const Stream stream = (direction == Direction::kOut ? out_ : in_).get();
    const auto calls = static_cast<std::size_t>(kLargest.value / size.value * (quick_ ? 1 : 4));
    const auto call = [&] { copy(direction, stream, size); };
    call();
    return timer_.time_queued(stream, 5, calls, call);
}

// Both streams begin together and copy as much; the time of each is taken well before the slower one's copies are
// alone.
void TransferBench::both(GpuCopyRates& rates) {
    const auto copies = static_cast<std::size_t>(kLargest.value / rates.size.value * 16), timed = copies * 3 / 4;
    std::vector<Seconds> out, in;
    for (int round = 0; round < (quick_ ? 1 : 3); ++round) {
        const Events begin(2), end(2);
        timer_.hold(out_.get(), kHold), timer_.hold(in_.get(), kHold);
        record(begin[0], out_.get()), record(begin[1], in_.get());
        for (std::size_t i = 0; i < copies; ++i) {
            copy(Direction::kOut, out_.get(), rates.size), copy(Direction::kIn, in_.get(), rates.size);
            if (i + 1 == timed) record(end[0], out_.get()), record(end[1], in_.get());
        }
        out_.wait(), in_.wait();
        out.push_back(Seconds{static_cast<double>(nanoseconds_between(begin[0], end[0])) * 1e-9});
        in.push_back(Seconds{static_cast<double>(nanoseconds_between(begin[1], end[1])) * 1e-9});
    }
    const Bytes moved = rates.size * static_cast<std::int64_t>(timed);
    rates.out_beside_in = moved / median_of(out), rates.in_beside_out = moved / median_of(in);
}

// What a small copy takes beyond its bytes, the mean of both directions.
Seconds TransferBench::start(const GpuCopyRates& rates) {
    Seconds sum{0};
    for (const Direction direction : {Direction::kOut, Direction::kIn}) {
        const Stream stream = (direction == Direction::kOut ? out_ : in_).get();
        copy(direction, stream, kSmall);
        timer_.hold(stream, kHold);
        const Measurement time = timer_.time_queued(stream, 5, 40, [&] { copy(direction, stream, kSmall); });
        sum += std::max(Seconds{1e-7}, time.median - kSmall / (direction == Direction::kOut ? rates.out : rates.in));
    }
    return sum / 2;
}

GpuCopies TransferBench::copies() {
    GpuCopies copies;
    copies.pin = Bytes{static_cast<std::int64_t>(host_.bytes().size())} / pinning_;
    for (const Bytes size : {64_MiB, kLargest}) {
        const Measurement out = alone(Direction::kOut, size), in = alone(Direction::kIn, size);
        GpuCopyRates rates{size, size / out.median, size / in.median, {}, {}};
        both(rates);
        copies.rates.push_back(rates);
        copies.spread = std::max({copies.spread, out.spread(), in.spread()});
    }
    copies.start = start(copies.rates.back());
    return copies;
}

GpuInterference TransferBench::interference(Gemms& gemms, std::size_t parts) {
    constexpr std::int64_t kSide = 8192;
    const GemmShape shape{Transpose::kNo,    Transpose::kYes,  kSide, kSide, kSide, kSide, kSide, kSide,
                          ResultType::kBf16, Store::kOverwrite};
    MeasurementMemory operands(Bytes{3 * 2 * kSide * kSide}), scratch(gemm_scratch_bytes(shape));
    operands.fill_at_random();
    gemms.prepare(shape, timer_.stream(), {scratch.data(), static_cast<std::size_t>(scratch.size().value)});
    auto* const data = reinterpret_cast<Bf16*>(operands.data());
    const auto matrix = [&](std::int64_t k) { return Bf16Matrix(data + k * kSide * kSide, kSide, kSide); };
    const auto product = [&] {
        gemms.run(timer_.stream(), Transpose::kNo, matrix(0), Transpose::kYes, matrix(1), matrix(2), Store::kOverwrite);
    };
    constexpr std::size_t kCalls = 5;
    const auto time = [&](bool out, bool in) {
        // 2.4 ms each, one way: they outlast the pause, and the products of 1.6 ms each, or as many times longer.
        const std::size_t copies = static_cast<std::size_t>(kPause / Seconds{2.4e-3}) + kCalls * parts + 5;
        timer_.hold(timer_.stream(), kPause);
        for (std::size_t i = 0; i < copies; ++i) {
            if (out) copy(Direction::kOut, out_.get(), kLargest / 2);
            if (in) copy(Direction::kIn, in_.get(), kLargest / 2);
        }
        const Seconds each = timer_.time_queued(timer_.stream(), 1, kCalls, product).median;
        out_.wait(), in_.wait();
        return each;
    };
    std::vector<Seconds> alone, out, in, both;
    for (int round = 0; round < (quick_ ? 2 : 5); ++round) {
        alone.push_back(time(false, false)), out.push_back(time(true, false));
        alone.push_back(time(false, false)), in.push_back(time(false, true));
        both.push_back(time(true, true));
    }
    const auto factor = [&](const std::vector<Seconds>& times) {
        return std::clamp(median_of(alone) / median_of(times), 0.01, 1.0);
    };
    return {factor(out), factor(in), factor(both)};
}

Seconds event_gap(GpuTimer& timer) {
    constexpr std::size_t kKernels = 300;
    const OwnedStream stream;
    const DeviceMemory word(4_B, "a word");
    const Events events(kKernels);
    std::vector<Seconds> gaps;
    for (int round = 0; round < 7; ++round) {
        const auto chain = [&](bool record_each) {
            std::size_t k = 0;
            timer.hold(stream.get(), kHold);
            return timer
                .time_queued(stream.get(), 1, kKernels,
                             [&] {
                                 fill_words(stream.get(), word.bytes(), 0);
                                 if (record_each) record(events[k++], stream.get());
                             })
                .median;
        };
        const Seconds plain = chain(false);
        gaps.push_back(std::max(Seconds{0}, chain(true) - plain));
    }
    return median_of(gaps);
}

}  // namespace sluice::cuda
