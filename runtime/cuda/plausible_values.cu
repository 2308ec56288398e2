#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/plausible_values.h"
#include "runtime/cuda/vector.cuh"
#include "runtime/stand_in.h"

namespace sluice::cuda {
namespace {

constexpr int kWidth = 8;  // values of 16 bytes

__global__ void __launch_bounds__(256)
    plausible_kernel(Bf16* values, const std::int64_t count, const float scale, const std::uint64_t seed) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::int64_t whole = count / kWidth;
    for (std::int64_t v = first; v < whole; v += step) {
        float made[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i)
            made[i] = scale * plausible_value(seed, static_cast<std::uint64_t>(v * kWidth + i));
        store(values + v * kWidth, rounded<Bf16>(made));
    }
    const std::int64_t rest = whole * kWidth + first;
    if (rest < count)
        store(values + rest, rounded<Bf16>({scale * plausible_value(seed, static_cast<std::uint64_t>(rest))}));
}

}  // namespace

void fill_plausible(Stream stream, Bf16* values, std::int64_t count, float scale, std::uint64_t seed) {
    if (count == 0) return;
    SLUICE_CHECK(in_whole_vectors<kWidth>(values, 0), "received tensors begin at multiples of 16 bytes");
    plausible_kernel<<<1024, 256, 0, stream>>>(values, count, scale, seed);
    check_launch("plausible values");
}

}  // namespace sluice::cuda
