#include <algorithm>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/column_sums.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/vector.cuh"

namespace sluice::cuda {
namespace {

// A warp reads 32 neighbouring columns of every 32nd row, then sums one of the block's columns across the warps.
__global__ void __launch_bounds__(1024)
    partial_rows_kernel(const float* partials, const std::int64_t rows, const std::int64_t columns, float* sums) {
    __shared__ float tile[kWarp][kWarp + 1];
    const std::int64_t column = blockIdx.x * static_cast<std::int64_t>(kWarp) + threadIdx.x;
    float total = 0;
    if (column < columns) {
#pragma unroll 8
        for (std::int64_t r = threadIdx.y; r < rows; r += kWarp) total += partials[r * columns + column];
    }
    tile[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    const float sum = warp_sum(tile[threadIdx.x][threadIdx.y]);
    const std::int64_t own = blockIdx.x * static_cast<std::int64_t>(kWarp) + threadIdx.y;
    if (threadIdx.x == 0 && own < columns) sums[own] += sum;
}

constexpr int kWidth = 8;          // columns of a thread
constexpr unsigned kRowLanes = 8;  // rows that a block is at
constexpr std::int64_t kColumnTile = static_cast<std::int64_t>(kWarp) * kWidth;
constexpr std::int64_t kBlocks = 1056;     // 8 for each SM of an H200
constexpr std::int64_t kRowsAtLeast = 64;  // of a block: its partial sums are a small part of what it reads

// Block (x, y) sums slice y of the rows of column tile x. dy is read in fours of rows, to have them under way at once.
template <bool kAligned>
__global__ void __launch_bounds__(kWarp* kRowLanes)
    column_sums_kernel(const ConstBf16Matrix dy, const std::int64_t rows_per_slice, float* partials) {
    __shared__ float tile[kRowLanes][kColumnTile + 1];
    const std::int64_t column = blockIdx.x * kColumnTile + threadIdx.x * kWidth;
    const std::int64_t left = dy.columns - column;
    const std::int64_t first = blockIdx.y * rows_per_slice;
    const std::int64_t end = min(first + rows_per_slice, dy.rows);
    float total[kWidth] = {};
    constexpr int kUnroll = 4;
    for (std::int64_t r0 = first + threadIdx.y; r0 < end; r0 += kUnroll * kRowLanes) {
        Vector<Bf16, kWidth> v[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t r = r0 + u * static_cast<std::int64_t>(kRowLanes);
            v[u] = load_part<kAligned, kWidth>(dy.row(r) + column, r < end ? left : 0);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
            for (int i = 0; i < kWidth; ++i) total[i] += v[u][i];
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) tile[threadIdx.y][threadIdx.x * kWidth + i] = total[i];
    __syncthreads();
    const unsigned own = threadIdx.y * kWarp + threadIdx.x;  // as many threads as columns of the tile
    if (blockIdx.x * kColumnTile + own >= dy.columns) return;
    float sum = 0;
#pragma unroll
    for (unsigned lane = 0; lane < kRowLanes; ++lane) sum += tile[lane][own];
    partials[blockIdx.y * dy.columns + blockIdx.x * kColumnTile + own] = sum;
}
static_assert(kWarp * kRowLanes == kColumnTile);

}  // namespace

void add_partial_rows(Stream stream, const float* partials, std::int64_t rows, std::int64_t columns, float* sums) {
    if (columns == 0) return;
    const auto blocks = static_cast<unsigned>(ceil_div(columns, kWarp));
    partial_rows_kernel<<<blocks, dim3(kWarp, kWarp), 0, stream>>>(partials, rows, columns, sums);
    check_launch("add_partial_rows");
}

void bias_backward(Stream stream, ConstBf16Matrix dy, float* dbias, Scratch scratch) {
    if (dy.rows == 0 || dy.columns == 0) return;
    const std::int64_t tiles = ceil_div(dy.columns, kColumnTile);
    const std::int64_t most =
        std::min({std::max<std::int64_t>(kBlocks / tiles, 1), ceil_div(dy.rows, kRowsAtLeast), std::int64_t{65535}});
    const std::int64_t rows_per_slice = ceil_div(dy.rows, most), slices = ceil_div(dy.rows, rows_per_slice);
    SLUICE_CHECK(slices * dy.columns <= scratch.floats, "scratch memory holds the partial sums of a bias");
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(slices)), block(kWarp, kRowLanes);
    if (in_whole_vectors<kWidth>(dy))
        column_sums_kernel<true><<<grid, block, 0, stream>>>(dy, rows_per_slice, scratch.data);
    else
        column_sums_kernel<false><<<grid, block, 0, stream>>>(dy, rows_per_slice, scratch.data);
    check_launch("bias_backward");
    add_partial_rows(stream, scratch.data, slices, dy.columns, dbias);
}

}  // namespace sluice::cuda
