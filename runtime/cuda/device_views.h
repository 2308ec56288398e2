// What kernels are given: views of device memory, and the stream that they are put on.
#pragma once

#include <cstdint>

#include "runtime/cuda/bf16.h"
#include "runtime/matrix_view.h"

// The runtime API's stream, whose header stays out of ours.
struct CUstream_st;

namespace sluice::cuda {

using Stream = CUstream_st*;

// As runtime/matrix_view.h, on the device. Every function of this folder that takes them puts its work on the stream
// and returns; views must stay valid until that work has ended. None allocates, none waits.
using Bf16Matrix = BasicMatrixView<Bf16>;
using ConstBf16Matrix = BasicMatrixView<const Bf16>;
using Fp32Matrix = BasicMatrixView<float>;
using ConstFp32Matrix = BasicMatrixView<const float>;

// Device memory that a reduction over rows leaves its partial results in. One per stream: calls follow each other.
struct Scratch {
    float* data = nullptr;
    std::int64_t floats = 0;
};
inline constexpr std::int64_t kScratchFloats = 8 << 20;  // 32 MiB: enough for every kernel of this folder

}  // namespace sluice::cuda
