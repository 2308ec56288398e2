#include "runtime/cuda/sustained_call.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/cuda/bf16.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream_stopwatch.h"

namespace sluice::cuda {
namespace {

constexpr int kWarmCalls = 3;
constexpr std::int64_t kMostCalls = 20000;

}  // namespace

SustainedCall sustained(Seconds at_least, const std::function<void()>& call) {
    StreamStopwatch stopwatch(nullptr);
    for (int i = 0; i < kWarmCalls; ++i) call();
    stopwatch.start();
    call();
    const Seconds one = std::max(stopwatch.stop(), Seconds{1e-6});
    const auto calls = std::clamp<std::int64_t>(std::llround(std::ceil(at_least / one)), 3, kMostCalls);
    stopwatch.start();
    for (std::int64_t i = 0; i < calls; ++i) call();
    return {stopwatch.stop() / static_cast<double>(calls), calls};
}

void MeasurementMemory::fill_at_random() const {
    constexpr std::size_t kBlock = 2 << 20;
    const auto bytes = memory_.bytes().size();
    std::mt19937 random(1);
    std::vector<Bf16> block(kBlock / sizeof(Bf16));
    for (Bf16& v : block)
        v = to_bf16(static_cast<float>(static_cast<std::int32_t>(random() >> 8) - (1 << 23)) / (1 << 23));
    std::size_t done = std::min(kBlock, bytes);
    check(cudaMemcpy(data(), block.data(), done, cudaMemcpyHostToDevice), "cudaMemcpy of random values");
    for (std::size_t more = 0; done < bytes; done += more) {  // what is there, twice
        more = std::min(done, bytes - done);
        check(cudaMemcpy(data() + done, data(), more, cudaMemcpyDeviceToDevice), "cudaMemcpy of random values");
    }
}

void MeasurementMemory::fill_with_zeros() const {
    check(cudaMemset(data(), 0, memory_.bytes().size()), "cudaMemset of zeros");
}

}  // namespace sluice::cuda
