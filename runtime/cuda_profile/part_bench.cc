#include "runtime/cuda_profile/part_bench.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <span>

#include "runtime/cuda/check.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/operand_pool.h"
#include "runtime/cuda_profile/part_load.h"

namespace sluice::cuda {
namespace {

constexpr Bytes kCopied = 64_MiB, kSmall = 64_KiB;
constexpr Seconds kHold{15e-3};

Seconds sum_of_residuals(GpuTimer& timer, OperandPool& pool, Seconds at_least) {
    const auto x = [&] { return pool.bf16(16384, 4096); };  // 128 MiB each
    return timer.time([&] { residual_add(timer.stream(), x(), x(), x()); }, at_least).median;
}

BytesPerSecond copy_rate(GpuTimer& timer, OperandPool& pool, Seconds at_least) {
    const auto bytes = static_cast<std::size_t>(kCopied.value);
    const Seconds time =
        timer
            .time(
                [&] {
                    check(cudaMemcpyAsync(pool.take<std::byte>(kCopied.value), pool.take<std::byte>(kCopied.value),
                                          bytes, cudaMemcpyDeviceToDevice, timer.stream()),
                          "a copy within the GPU");
                },
                at_least)
            .median;
    return kCopied / time;
}

// Back and forth between two streams, each copy after the other's, all of it put there beforehand: what one copy takes
// with the events that both sides wait for, beyond its bytes.
Seconds copy_latency(GpuTimer& timer, const DevicePart& other, OperandPool& pool, BytesPerSecond rate) {
    constexpr std::size_t kTurns = 100;
    const OwnedStream there(other.new_stream());
    const Events events(2 * kTurns + 2);
    std::byte* const from = pool.take<std::byte>(kSmall.value);
    std::byte* const to = pool.take<std::byte>(kSmall.value);
    const auto copy = [&](Stream stream) {
        check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(kSmall.value), cudaMemcpyDeviceToDevice, stream),
              "a small copy within the GPU");
    };
    copy(timer.stream()), copy(there.get());
    timer.hold(timer.stream(), kHold);
    record(events[0], timer.stream());
    const Event begin = events[2 * kTurns + 1];
    record(begin, timer.stream());
    for (std::size_t turn = 0; turn < 2 * kTurns; ++turn) {
        const Stream stream = turn % 2 == 0 ? there.get() : timer.stream();
        wait_for(stream, events[turn]);
        copy(stream);
        record(events[turn + 1], stream);
    }
    check(cudaEventSynchronize(events[2 * kTurns]), "small copies within the GPU");
    const double all = static_cast<double>(nanoseconds_between(begin, events[2 * kTurns])) * 1e-9;
    return std::max(Seconds{1e-7}, Seconds{all / (2.0 * kTurns)} - kSmall / rate);
}

}  // namespace

GpuPartFigures measure_part(const std::vector<std::shared_ptr<const DevicePart>>& parts, GpuTimer& timer,
                            Seconds at_least) {
    OperandPool pool(6_GiB);
    pool.refill();
    GpuPartFigures found;
    found.parts = static_cast<int>(parts.size());
    found.multiprocessors = parts.front()->multiprocessors();
    std::vector<double> memory;
    std::vector<Seconds> rates;
    for (int round = 0; round < 3; ++round) {
        const Seconds memory_alone = sum_of_residuals(timer, pool, at_least);
        PartLoad load(std::span<const std::shared_ptr<const DevicePart>>(parts).subspan(1));
        memory.push_back(sum_of_residuals(timer, pool, at_least) / memory_alone);
        rates.push_back(kCopied / copy_rate(timer, pool, at_least));
        load.expect_running();
    }
    const auto median = [](auto values) {
        std::sort(values.begin(), values.end());
        return values[values.size() / 2];
    };
    found.memory_alone = std::max(1.0, median(memory));
    found.copy = kCopied / median(rates);
    found.copy_latency = copy_latency(timer, *parts.back(), pool, found.copy);
    return found;
}

}  // namespace sluice::cuda
