#include "runtime/cuda/library_rates.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/stream_stopwatch.h"

namespace sluice::cuda {
namespace {

constexpr int kWarmCalls = 3;
constexpr std::int64_t kMostCalls = 20000;

struct FreeDevice {
    void operator()(void* memory) const { cudaFree(memory); }
};

template <class Element>
class Memory {
public:
    explicit Memory(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(Element)) {
        void* made = nullptr;
        check(cudaMalloc(&made, bytes_), fmt::format("cudaMalloc of {} bytes for a measurement", bytes_));
        memory_.reset(made);
    }
    Element* data() const { return static_cast<Element*>(memory_.get()); }
    std::size_t bytes() const { return bytes_; }

private:
    std::size_t bytes_;
    std::unique_ptr<void, FreeDevice> memory_;
};

// Uniform in [-1, 1): one block of random values, again and again.
Memory<Bf16> random_bf16(std::int64_t count) {
    constexpr std::size_t kBlock = 1 << 20;
    Memory<Bf16> memory(count);
    std::mt19937 random(1);
    std::vector<Bf16> block(kBlock);
    for (Bf16& v : block)
        v = to_bf16(static_cast<float>(static_cast<std::int32_t>(random() >> 8) - (1 << 23)) / (1 << 23));
    for (std::size_t at = 0; at < static_cast<std::size_t>(count); at += kBlock) {
        const std::size_t size = std::min(kBlock, static_cast<std::size_t>(count) - at) * sizeof(Bf16);
        check(cudaMemcpy(memory.data() + at, block.data(), size, cudaMemcpyHostToDevice),
              "cudaMemcpy of random values");
    }
    return memory;
}

Memory<float> zeros(std::int64_t count) {
    Memory<float> memory(count);
    check(cudaMemset(memory.data(), 0, memory.bytes()), "cudaMemset of accumulators");
    return memory;
}

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

template <class Result>
ProductRate product(const GemmShape& s, Seconds at_least, Result* c) {
    const bool ta = s.a == Transpose::kYes, tb = s.b == Transpose::kYes;
    const std::int64_t a_rows = ta ? s.k : s.m, b_rows = tb ? s.n : s.k;
    Gemms gemms;
    {
        const Memory<std::byte> scratch(gemm_scratch_bytes(s).value);
        gemms.prepare(s, nullptr, {scratch.data(), scratch.bytes()});
    }
    const Memory<Bf16> a = random_bf16(a_rows * s.a_stride), b = random_bf16(b_rows * s.b_stride);
    const ConstBf16Matrix av(a.data(), a_rows, ta ? s.m : s.k, s.a_stride);
    const ConstBf16Matrix bv(b.data(), b_rows, tb ? s.k : s.n, s.b_stride);
    const BasicMatrixView<Result> cv(c, s.m, s.n, s.c_stride);
    const SustainedCall call = sustained(at_least, [&] { gemms.run(nullptr, s.a, av, s.b, bv, cv, s.store); });
    return {call, gemms.choices().front()};
}

}  // namespace

ProductRate sustained_product(const GemmShape& s, Seconds at_least) {
    if (s.result == ResultType::kFp32) {
        const Memory<float> c = zeros(s.m * s.c_stride);
        return product(s, at_least, c.data());
    }
    const Memory<Bf16> c = random_bf16(s.m * s.c_stride);
    return product(s, at_least, c.data());
}

AttentionRate sustained_attention(const AttentionShape& s, Seconds at_least) {
    const std::int64_t queries = s.length.value, keys = s.begin.value + queries;
    const std::int64_t width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
    AttentionPlans plans;
    plans.prepare(s, {width, 2 * kv_width, width});
    AttentionRate rate{{}, {}, plans.forward_workspace(s), plans.backward_workspace(s)};

    const Memory<Bf16> query = random_bf16(queries * width), kv = random_bf16(keys * 2 * kv_width);
    const Memory<Bf16> dout = random_bf16(queries * width), out(queries * width), dquery(queries * width);
    const Memory<float> log_sum_exp(queries * s.heads), dkv = zeros(keys * 2 * kv_width);
    const Memory<std::byte> workspace(std::max(rate.forward_workspace, rate.backward_workspace).value);
    const auto keys_of = [&](auto* data) { return BasicMatrixView(data, keys, kv_width, 2 * kv_width); };
    const AttentionOperands in{{query.data(), queries, width}, keys_of(kv.data()), keys_of(kv.data() + kv_width)};
    const AttentionSaved saved{{out.data(), queries, width}, log_sum_exp.data()};
    const AttentionGradients gradients{
        {dquery.data(), queries, width}, keys_of(dkv.data()), keys_of(dkv.data() + kv_width), false, {}};
    rate.forward = sustained(at_least, [&] { plans.forward(nullptr, s, in, saved, workspace.data()); });
    rate.backward = sustained(at_least, [&] {
        plans.backward(nullptr, s, in, {saved.out, saved.log_sum_exp}, {dout.data(), queries, width}, gradients,
                       workspace.data());
    });
    return rate;
}

std::string current_device_description() {
    int device = 0, driver = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    return fmt::format("{}, {} SMs, driver for CUDA {}.{}", properties.name, properties.multiProcessorCount,
                       driver / 1000, driver % 1000 / 10);
}

}  // namespace sluice::cuda
