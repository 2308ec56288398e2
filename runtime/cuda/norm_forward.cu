#include "runtime/cuda/check.h"
#include "runtime/cuda/norm.h"
#include "runtime/cuda/norm_rows.cuh"

namespace sluice::cuda {
namespace {

// What is normed: a matrix, the same and a copy of it made on the way, or the sum of two.
enum class Normed : std::uint8_t { kMatrix, kCopied, kSum };

struct Forward {
    ConstBf16Matrix a, b;  // b: data null for none
    Bf16Matrix sum;        // of both, or the copy; data null for neither
    NormWeights weights;
    Bf16Matrix y;
    float* statistics;
};

template <int kVectors>
using Row = Vector<Bf16, kNormWidth>[kVectors];

template <int kVectors, bool kAligned>
__device__ void load_row(ConstBf16Matrix from, std::int64_t row, Row<kVectors>& to) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        const std::int64_t left = row < from.rows ? from.columns - norm_column(v) : 0;
        to[v] = load_part<kAligned, kNormWidth>(from.row(row) + norm_column(v), left);
    }
}

// x becomes x + other, rounded and stored: the norm is that of the sum as stored.
template <int kVectors, bool kAligned>
__device__ void add_row(Bf16Matrix sum, std::int64_t row, const Row<kVectors>& other, Row<kVectors>& x) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        float total[kNormWidth];
#pragma unroll
        for (int i = 0; i < kNormWidth; ++i) total[i] = x[v][i] + other[v][i];
        x[v] = rounded<Bf16>(total);
        const std::int64_t left = row < sum.rows ? sum.columns - norm_column(v) : 0;
        store_part<kAligned>(sum.row(row) + norm_column(v), x[v], left);
    }
}

template <int kVectors, bool kAligned>
__device__ void store_row(Bf16Matrix to, std::int64_t row, const Row<kVectors>& x) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        const std::int64_t left = row < to.rows ? to.columns - norm_column(v) : 0;
        store_part<kAligned>(to.row(row) + norm_column(v), x[v], left);
    }
}

// Sum over the row of (x - mean)^2. Elements beyond the row are zeros, which are not the mean.
template <int kVectors, bool kAligned>
__device__ float squared_differences(const Row<kVectors>& x, std::int64_t columns, float mean) {
    float squares = 0;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        const std::int64_t left = columns - norm_column(v);
#pragma unroll
        for (int i = 0; i < kNormWidth; ++i) {
            const float d = x[v][i] - mean;
            if (kAligned ? left > 0 : i < left) squares = fmaf(d, d, squares);
        }
    }
    return squares;
}

// threadIdx.y: row of the block. The row stays in registers from the first read to the last write. Multiplications and
// additions are fused here, not by the compiler, which could choose otherwise for another layout.
// Blocks per SM: as many as registers allow without any going to memory.
template <int kVectors, bool kAligned, bool kCentred, Normed kNormed>
__global__ void __launch_bounds__(kNormMaxThreads, kVectors == 4 ? 1
                                                   : kCentred    ? 2
                                                                 : 3) norm_forward_kernel(const Forward p) {
    __shared__ float slots[2][kMaxWarps];
    const std::int64_t row = blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
    const std::int64_t columns = p.a.columns;
    // Everything is asked for before anything is waited for, but for the bias: it is in the cache, and its registers
    // are better spent on more rows under way.
    Row<kVectors> x, other, weight, bias;
    load_row<kVectors, kAligned>(p.a, row, x);
    if constexpr (kNormed == Normed::kSum) load_row<kVectors, kAligned>(p.b, row, other);
    load_row<kVectors, kAligned>({p.weights.weight, 1, columns}, 0, weight);
    if constexpr (kNormed == Normed::kSum) add_row<kVectors, kAligned>(p.sum, row, other, x);
    if constexpr (kNormed == Normed::kCopied) store_row<kVectors, kAligned>(p.sum, row, x);

    float mean = 0;
    if constexpr (kCentred) {
        float sum = 0;
#pragma unroll
        for (int v = 0; v < kVectors; ++v)
#pragma unroll
            for (int i = 0; i < kNormWidth; ++i) sum += x[v][i];
        mean = row_sum(sum, slots[0]) / static_cast<float>(columns);
    }
    const float squares = row_sum(squared_differences<kVectors, kAligned>(x, columns, mean), slots[1]);
    const float reciprocal = 1.0F / sqrtf(squares / static_cast<float>(columns) + p.weights.epsilon);
    if (row >= p.a.rows) return;
    if constexpr (kCentred) load_row<kVectors, kAligned>({p.weights.bias, 1, columns}, 0, bias);
    if (threadIdx.x == 0) {
        if constexpr (kCentred) p.statistics[row] = mean;
        p.statistics[(kCentred ? p.a.rows : 0) + row] = reciprocal;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        float out[kNormWidth];
#pragma unroll
        for (int i = 0; i < kNormWidth; ++i) {
            const float n = (x[v][i] - mean) * reciprocal;
            out[i] = kCentred ? fmaf(weight[v][i], n, bias[v][i]) : weight[v][i] * n;
        }
        store_part<kAligned>(p.y.row(row) + norm_column(v), rounded<Bf16>(out), columns - norm_column(v));
    }
}

template <int kVectors, bool kAligned, bool kCentred>
void launch(Stream stream, const NormGeometry& g, const Forward& p) {
    const auto blocks = static_cast<unsigned>(ceil_div(p.a.rows, g.rows));
    const dim3 block(g.threads, g.rows);
    if (p.sum.data == nullptr)
        norm_forward_kernel<kVectors, kAligned, kCentred, Normed::kMatrix><<<blocks, block, 0, stream>>>(p);
    else if (p.b.data == nullptr)
        norm_forward_kernel<kVectors, kAligned, kCentred, Normed::kCopied><<<blocks, block, 0, stream>>>(p);
    else
        norm_forward_kernel<kVectors, kAligned, kCentred, Normed::kSum><<<blocks, block, 0, stream>>>(p);
    check_launch("norm_forward");
}

template <int kVectors, bool kAligned>
void launch(Stream stream, const NormGeometry& g, const Forward& p) {
    if (p.weights.bias == nullptr)
        launch<kVectors, kAligned, false>(stream, g, p);
    else
        launch<kVectors, kAligned, true>(stream, g, p);
}

bool in_whole_vectors(const Forward& p) {
    const auto whole = [](auto... views) { return (cuda::in_whole_vectors<kNormWidth>(views) && ...); };
    return whole(p.a, p.y) && (p.b.data == nullptr || whole(p.b)) && (p.sum.data == nullptr || whole(p.sum)) &&
           cuda::in_whole_vectors<kNormWidth>(p.weights.weight, 0) &&
           cuda::in_whole_vectors<kNormWidth>(p.weights.bias, 0);
}

void forward(Stream stream, const Forward& p) {
    if (p.a.rows == 0 || p.a.columns == 0) return;
    const NormGeometry g = norm_geometry(p.a.columns);
    const bool whole = in_whole_vectors(p);
    if (g.vectors == 2)
        whole ? launch<2, true>(stream, g, p) : launch<2, false>(stream, g, p);
    else
        whole ? launch<4, true>(stream, g, p) : launch<4, false>(stream, g, p);
}

}  // namespace

void norm_forward(Stream stream, ConstBf16Matrix x, const NormWeights& weights, Bf16Matrix y, float* statistics) {
    SLUICE_CHECK(same_shape(x, y), "the shapes of a norm agree");
    forward(stream, {x, {}, {}, weights, y, statistics});
}

void copy_norm_forward(Stream stream, ConstBf16Matrix x, Bf16Matrix copy, const NormWeights& weights, Bf16Matrix y,
                       float* statistics) {
    SLUICE_CHECK(same_shape(x, copy) && same_shape(x, y), "the shapes of a norm agree");
    forward(stream, {x, {}, copy, weights, y, statistics});
}

void residual_norm_forward(Stream stream, ConstBf16Matrix a, ConstBf16Matrix b, Bf16Matrix sum,
                           const NormWeights& weights, Bf16Matrix y, float* statistics) {
    SLUICE_CHECK(same_shape(a, b) && same_shape(a, sum) && same_shape(a, y), "the shapes of a norm agree");
    forward(stream, {a, b, sum, weights, y, statistics});
}

}  // namespace sluice::cuda
