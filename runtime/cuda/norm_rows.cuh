// How the threads of a norm hold rows: the same for forward and backward, and for whole and odd rows, so that an output
// made again has the same bits.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "runtime/cuda/norm.h"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/vector.cuh"

namespace sluice::cuda {

inline constexpr int kNormWidth = 8;  // columns of a vector
inline constexpr unsigned kNormMaxThreads = 512;

// Vector v of thread t of a row is vector v * threads + t of the row.
struct NormGeometry {
    int vectors = 0;       // of a thread: 2 or 4
    unsigned threads = 0;  // of a row, a multiple of 32
    unsigned rows = 0;     // of a block
};

inline NormGeometry norm_geometry(std::int64_t hidden) {
    const std::int64_t vectors = ceil_div(hidden, kNormWidth);
    NormGeometry g;
    g.vectors = vectors <= 2 * std::int64_t{kNormMaxThreads} ? 2 : 4;
    SLUICE_CHECK(vectors <= g.vectors * std::int64_t{kNormMaxThreads}, "a norm's rows have at most 16384 columns");
    g.threads = static_cast<unsigned>(ceil_div(ceil_div(vectors, g.vectors), kWarp)) * kWarp;
    g.rows = std::max(1U, 256U / g.threads);
    return g;
}

// First column of vector v of this thread.
inline __device__ std::int64_t norm_column(int v) {
    return (static_cast<std::int64_t>(v) * blockDim.x + threadIdx.x) * kNormWidth;
}

}  // namespace sluice::cuda
