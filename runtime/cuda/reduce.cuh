// Sums and maxima over the threads of a warp and of a block, in an order that depends on the number of threads alone.
#pragma once

#include <cstdint>

namespace sluice::cuda {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxWarps = 32;  // of a block

template <class Number>
__device__ Number warp_sum(Number value) {  // in every lane the same bits: addition commutes
#pragma unroll
    for (unsigned other = kWarp / 2; other > 0; other /= 2) value += __shfl_xor_sync(0xffffffffU, value, other);
    return value;
}

inline __device__ float warp_maximum(float value) {
#pragma unroll
    for (unsigned other = kWarp / 2; other > 0; other /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, other));
    return value;
}

// The threads with one threadIdx.y, blockDim.x of them, a multiple of 32, hold one row: sum over them, to all of them.
// All threads of the block call it. `slots` is shared memory, one per warp of the block, that no other sum uses
// between the two barriers around this one.
template <class Number>
__device__ Number row_sum(Number value, Number* slots) {
    value = warp_sum(value);
    const unsigned warps = blockDim.x / kWarp, first = threadIdx.y * warps;
    if (threadIdx.x % kWarp == 0) slots[first + threadIdx.x / kWarp] = value;
    __syncthreads();
    Number total{};
    for (unsigned w = 0; w < warps; ++w) total += slots[first + w];
    return total;
}

inline __device__ float row_maximum(float value, float* slots) {
    value = warp_maximum(value);
    const unsigned warps = blockDim.x / kWarp, first = threadIdx.y * warps;
    if (threadIdx.x % kWarp == 0) slots[first + threadIdx.x / kWarp] = value;
    __syncthreads();
    float top = slots[first];
    for (unsigned w = 1; w < warps; ++w) top = fmaxf(top, slots[first + w]);
    return top;
}

}  // namespace sluice::cuda
