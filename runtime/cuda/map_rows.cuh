// Elementwise kernels on rows: the walk over memory that all of them share.
//
// An operation says what it loads and what it stores:
//
//   struct Twice {
//       ConstBf16Matrix x;
//       Bf16Matrix y;
//       template <int kWidth>
//       __device__ Vector<Bf16, kWidth> load(std::int64_t row, std::int64_t column) const;
//       template <int kWidth>
//       __device__ void store(std::int64_t row, std::int64_t column, const Vector<Bf16, kWidth>& loaded) const;
//   };
//
// A thread loads kUnroll vectors, all before it stores one, so that their latencies overlap, and each element is read
// and written by one thread: in place is safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/vector.cuh"

namespace sluice::cuda {

inline constexpr unsigned kMapThreads = 256;

// Division by a number that the host knows, without the hundred instructions that it takes otherwise: the product with
// the reciprocal, rounded down, falls short of the quotient by one at most.
struct Divisor {
    unsigned value;
    unsigned reciprocal32;
    unsigned long long reciprocal64;

    explicit Divisor(unsigned v) : value(v), reciprocal32(~0U / v), reciprocal64(~0ULL / v) {}

    // Quotient; leaves the remainder in `rest`.
    __device__ unsigned divide(unsigned n, unsigned& rest) const {
        unsigned quotient = __umulhi(n, reciprocal32);
        rest = n - quotient * value;
        if (rest >= value) ++quotient, rest -= value;
        return quotient;
    }
    __device__ std::int64_t divide(std::int64_t n, unsigned& rest) const {
        auto quotient = static_cast<std::int64_t>(__umul64hi(static_cast<unsigned long long>(n), reciprocal64));
        // below twice the divisor, which may be above 2^32 for a moment
        auto left = static_cast<unsigned long long>(n - quotient * value);
        if (left >= value) ++quotient, left -= value;
        rest = static_cast<unsigned>(left);
        return quotient;
    }
};

// Vectors are numbered along the rows: `per_row` in each, `count` in all. A block takes kMapThreads * kUnroll
// neighbours at a time and divides once for all of them in 64 bits; the remainders fit into 32.
template <int kWidth, int kUnroll, class Operation>
__global__ void __launch_bounds__(kMapThreads)
    map_rows_kernel(const Operation operation, const std::int64_t count, const Divisor per_row) {
    constexpr std::int64_t kTile = kMapThreads * kUnroll;
    using Loaded = decltype(operation.template load<kWidth>(0, 0));
    for (std::int64_t first = blockIdx.x * kTile; first < count; first += gridDim.x * kTile) {
        unsigned first_in_row, in_row;
        const std::int64_t first_row = per_row.divide(first, first_in_row);
        const std::int64_t left = count - first;
        Loaded loaded[kUnroll];
        std::int64_t row[kUnroll], column[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const unsigned place = first_in_row + threadIdx.x + static_cast<unsigned>(u) * kMapThreads;
            row[u] = first_row + per_row.divide(place, in_row);
            column[u] = static_cast<std::int64_t>(in_row) * kWidth;
            if (threadIdx.x + u * static_cast<std::int64_t>(kMapThreads) < left)
                loaded[u] = operation.template load<kWidth>(row[u], column[u]);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
            if (threadIdx.x + u * static_cast<std::int64_t>(kMapThreads) < left)
                operation.template store<kWidth>(row[u], column[u], loaded[u]);
    }
}

// `whole`: every row of every operand is in whole vectors of kWidth. Otherwise elements go one by one.
template <int kWidth, int kUnroll, class Operation>
void map_rows(Stream stream, const char* name, const Operation& operation, std::int64_t rows, std::int64_t columns,
              bool whole) {
    if (rows == 0 || columns == 0) return;
    SLUICE_CHECK(columns <= std::numeric_limits<std::int32_t>::max(), "a row's elements count in 32 bits");
    const Divisor per_row(static_cast<unsigned>(whole ? columns / kWidth : columns));
    const std::int64_t count = rows * per_row.value;
    const auto blocks = static_cast<unsigned>(
        std::min<std::int64_t>(ceil_div(count, kMapThreads * kUnroll), std::numeric_limits<std::int32_t>::max()));
    if (whole)
        map_rows_kernel<kWidth, kUnroll><<<blocks, kMapThreads, 0, stream>>>(operation, count, per_row);
    else
        map_rows_kernel<1, kUnroll><<<blocks, kMapThreads, 0, stream>>>(operation, count, per_row);
    check_launch(name);
}

}  // namespace sluice::cuda
