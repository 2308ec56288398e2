#include <algorithm>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/optimizer.h"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/vector.cuh"

namespace sluice::cuda {
namespace {

constexpr int kWidth = 4;
constexpr unsigned kThreads = 256;
constexpr std::int64_t kSumBlocks = 1056;    // 8 for each SM of an H200, on any device: the order of the sum
constexpr std::int64_t kAdamwBlocks = 2112;  // each finds the scale once

// Vectors are numbered; a thread takes every (gridDim * kThreads)-th, kUnroll at a time.
template <bool kAligned>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const float* values, const std::int64_t count, double* partials) {
    constexpr int kUnroll = 4;
    __shared__ double slots[kMaxWarps];
    const std::int64_t step = gridDim.x * static_cast<std::int64_t>(kThreads) * kWidth;
    double total = 0;
    for (std::int64_t first = (blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x) * kWidth; first < count;
         first += step * kUnroll) {
        Vector<float, kWidth> v[kUnroll];
        const bool whole = kAligned && first + step * (kUnroll - 1) + kWidth <= count;  // not at the end
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t at = first + u * step;
            v[u] = whole ? load<kWidth>(values + at) : load_part<false, kWidth>(values + at, count - at);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
            for (int i = 0; i < kWidth; ++i) total += static_cast<double>(v[u][i]) * static_cast<double>(v[u][i]);
    }
    total = row_sum(total, slots);
    if (threadIdx.x == 0) partials[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    add_squares_kernel(const double* partials, const std::int64_t blocks, double* sum) {
    __shared__ double slots[kMaxWarps];
    double total = 0;
    for (std::int64_t i = threadIdx.x; i < blocks; i += kThreads) total += partials[i];
    total = row_sum(total, slots);
    if (threadIdx.x == 0) *sum += total;
}

struct Adamw {
    AdamwStep step;
    AdamwFactors factors;
    double clip;
    const double* squares;
    AdamwParameters parameters;
};

__device__ float gradient_scale(const Adamw& p, double squares) {
    if (p.clip == 0) return p.step.gradient_scale;
    return p.step.gradient_scale * static_cast<float>(fmin(p.clip / (sqrt(squares) + 1e-6), 1.0));
}

// kWidth parameters at a time; 1 where an array is not aligned, and for the end.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    adamw_kernel(const Adamw p, const std::int64_t first, const std::int64_t vectors) {
    const double squares = *p.squares;
    if (!isfinite(squares)) return;
    const float scale = gradient_scale(p, squares);
    const float beta1 = p.step.beta1, beta2 = p.step.beta2, rest1 = 1.0F - beta1, rest2 = 1.0F - beta2;
    const std::int64_t stride = gridDim.x * static_cast<std::int64_t>(kThreads);
    for (std::int64_t at = blockIdx.x * static_cast<std::int64_t>(kThreads) + threadIdx.x; at < vectors; at += stride) {
        const std::int64_t i = first + at * kWidth;
        const Vector<float, kWidth> gradient = load<kWidth>(p.parameters.gradients + i);
        const Vector<float, kWidth> master = load<kWidth>(p.parameters.master + i);
        const Vector<float, kWidth> moment1 = load<kWidth>(p.parameters.first_moment + i);
        const Vector<float, kWidth> moment2 = load<kWidth>(p.parameters.second_moment + i);
        float w[kWidth], m[kWidth], v[kWidth];
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
            const float g = scale * gradient[k];
            m[k] = beta1 * moment1[k] + rest1 * g;
            v[k] = beta2 * moment2[k] + rest2 * (g * g);
            w[k] =
                master[k] * p.factors.kept - p.factors.size * m[k] / (sqrtf(v[k]) * p.factors.spread + p.step.epsilon);
        }
        store(p.parameters.master + i, rounded<float>(w));
        store(p.parameters.first_moment + i, rounded<float>(m));
        store(p.parameters.second_moment + i, rounded<float>(v));
        store(p.parameters.weights + i, rounded<Bf16>(w));
    }
}

template <int kWidth>
void launch(Stream stream, const Adamw& p, std::int64_t first, std::int64_t vectors) {
    if (vectors == 0) return;
    const auto blocks = static_cast<unsigned>(std::min(ceil_div(vectors, kThreads), kAdamwBlocks));
    adamw_kernel<kWidth><<<blocks, kThreads, 0, stream>>>(p, first, vectors);
    check_launch("adamw");
}

}  // namespace

void sum_of_squares(Stream stream, const float* values, std::int64_t count, double* sum, Scratch scratch) {
    if (count == 0) return;
    const std::int64_t blocks = std::min(ceil_div(count, kThreads * kWidth), kSumBlocks);
    SLUICE_CHECK(2 * blocks <= scratch.floats && reinterpret_cast<std::uintptr_t>(scratch.data) % sizeof(double) == 0,
                 "scratch memory holds the partial sums of squares");
    auto* const partials = reinterpret_cast<double*>(scratch.data);
    const auto grid = static_cast<unsigned>(blocks);
    if (in_whole_vectors<kWidth>(values, 0))
        squares_kernel<true><<<grid, kThreads, 0, stream>>>(values, count, partials);
    else
        squares_kernel<false><<<grid, kThreads, 0, stream>>>(values, count, partials);
    check_launch("sum_of_squares");
    add_squares_kernel<<<1, kThreads, 0, stream>>>(partials, blocks, sum);
    check_launch("sum_of_squares");
}

void adamw(Stream stream, const AdamwStep& step, double clip, const double* squares,
           const AdamwParameters& parameters) {
    SLUICE_CHECK(step.step >= 1 && clip >= 0, "steps count from 1, and the limit of the norm is not negative");
    const Adamw p{step, adamw_factors(step), clip, squares, parameters};
    const auto whole = [](auto*... arrays) { return (in_whole_vectors<kWidth>(arrays, 0) && ...); };
    const std::int64_t vectors = whole(parameters.gradients, parameters.master, parameters.first_moment,
                                       parameters.second_moment, parameters.weights)
                                     ? parameters.count / kWidth
                                     : 0;
    launch<kWidth>(stream, p, 0, vectors);
    launch<1>(stream, p, vectors * kWidth, parameters.count - vectors * kWidth);
}

}  // namespace sluice::cuda
