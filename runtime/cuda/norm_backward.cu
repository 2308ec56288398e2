#include <cuda_pipeline_primitives.h>

#include "runtime/cuda/check.h"
#include "runtime/cuda/column_sums.h"
#include "runtime/cuda/norm.h"
#include "runtime/cuda/norm_rows.cuh"

namespace sluice::cuda {
namespace {

using Part = Vector<Bf16, kNormWidth>;

struct Backward {
    NormBackward in;
    Bf16Matrix dx;
    float* partials;  // (groups, hidden) of dweight, then of dbias
};

// Rows on their way into shared memory while earlier ones are worked on: enough bytes under way although the sums of
// dweight leave registers for few threads. Every thread fetches and takes its own vectors, so no barrier is needed.
template <int kVectors, bool kAligned, bool kPassed>
struct RowsUnderWay {
    static constexpr int kOperands = kPassed ? 3 : 2;
    static constexpr int kStages = kVectors == 2 ? 3 : 1;
    static constexpr std::size_t kBytesPerThread = sizeof(uint4) * kStages * kOperands * kVectors;

    ConstBf16Matrix operands[kOperands];
    uint4* staged;

    __device__ RowsUnderWay(const NormBackward& in, uint4* shared) : staged(shared) {
        operands[0] = in.dy;
        operands[1] = in.x;
        if constexpr (kPassed) operands[2] = in.passed;
    }
    __device__ uint4* slot(int stage, int operand, int v) const {
        const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
        return staged + ((stage * kOperands + operand) * kVectors + v) * (blockDim.x * blockDim.y) + thread;
    }
    __device__ void fetch(int stage, std::int64_t row) const {
        if (row < operands[0].rows)
#pragma unroll
            for (int o = 0; o < kOperands; ++o)
#pragma unroll
                for (int v = 0; v < kVectors; ++v) fetch(slot(stage, o, v), operands[o], row, norm_column(v));
        __pipeline_commit();
    }
    static __device__ void fetch(uint4* to, const ConstBf16Matrix& from, std::int64_t row, std::int64_t column) {
        const std::int64_t left = from.columns - column;
        const Bf16* const address = from.row(row) + column;
        if constexpr (kAligned) {
            if (left > 0) __pipeline_memcpy_async(to, address, sizeof(uint4));
        } else {
            const Part part = load_part<false, kNormWidth>(address, left);
            *to = make_uint4(part.words[0], part.words[1], part.words[2], part.words[3]);
        }
    }
    // Requires: the fetches of later stages are the only ones under way. Zeros beyond the matrix.
    __device__ Part take(int stage, int operand, int v, std::int64_t row) const {
        if (row >= operands[0].rows || norm_column(v) >= operands[0].columns) return {};
        const uint4 raw = *slot(stage, operand, v);
        return {{raw.x, raw.y, raw.z, raw.w}};
    }
};

template <int kVectors, bool kCentred>
struct WeightSums {
    float weight[kVectors][kNormWidth] = {};
    float bias[kCentred ? kVectors : 1][kNormWidth] = {};
};

template <bool kAligned, int kVectors>
__device__ void store_sums(float* to, std::int64_t columns, const float (&sums)[kVectors][kNormWidth]) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
        store_part<kAligned>(to + norm_column(v), rounded<float>(sums[v]), columns - norm_column(v));
}

// Groups of blockDim.x threads take rows in turn. One barrier per row: the sums of the next row have other slots.
template <int kVectors, bool kAligned, bool kCentred, bool kPassed>
__global__ void __launch_bounds__(kNormMaxThreads, 1) norm_backward_kernel(const Backward p) {
    using Rows = RowsUnderWay<kVectors, kAligned, kPassed>;
    extern __shared__ uint4 staged[];
    __shared__ float slots[2][2][kMaxWarps];
    const Rows rows(p.in, staged);
    const std::int64_t columns = p.in.x.columns, end = p.in.x.rows;
    const std::int64_t groups = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
    const std::int64_t group = blockIdx.x * static_cast<std::int64_t>(blockDim.y) + threadIdx.y;
    const float* const reciprocals = p.in.statistics + (kCentred ? end : 0);
    const float per_column = 1.0F / static_cast<float>(columns);

    for (int s = 0; s < Rows::kStages - 1; ++s) rows.fetch(s, group + s * groups);
    Part weight[kVectors];
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
        weight[v] = load_part<kAligned, kNormWidth>(p.in.weights.weight + norm_column(v), columns - norm_column(v));
    float next_reciprocal = group < end ? reciprocals[group] : 0.0F;
    float next_mean = kCentred && group < end ? p.in.statistics[group] : 0.0F;
    WeightSums<kVectors, kCentred> sums;

    // every thread of the block goes round equally often
    const std::int64_t block_first = blockIdx.x * static_cast<std::int64_t>(blockDim.y);
    int stage = 0;
    for (std::int64_t turn = 0; block_first + turn * groups < end; ++turn) {
        const std::int64_t row = group + turn * groups, next = row + groups;
        const float r = next_reciprocal, m = next_mean;
        next_reciprocal = next < end ? reciprocals[next] : 0.0F;
        if constexpr (kCentred) next_mean = next < end ? p.in.statistics[next] : 0.0F;
        rows.fetch((stage + Rows::kStages - 1) % Rows::kStages, row + (Rows::kStages - 1) * groups);
        __pipeline_wait_prior(Rows::kStages - 1);

        Part dy[kVectors], x[kVectors], passed[kVectors];
        float sum_g = 0, sum_gn = 0;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            dy[v] = rows.take(stage, 0, v, row);
            x[v] = rows.take(stage, 1, v, row);
            if constexpr (kPassed) passed[v] = rows.take(stage, 2, v, row);
#pragma unroll
            for (int i = 0; i < kNormWidth; ++i) {
                const float n = (x[v][i] - m) * r, d = dy[v][i], g = weight[v][i] * d;
                if constexpr (kCentred) sum_g += g, sums.bias[v][i] += d;
                sum_gn += g * n;
                sums.weight[v][i] += d * n;
            }
        }
        stage = (stage + 1) % Rows::kStages;
        const int parity = static_cast<int>(turn % 2);
        float mean_g = 0, mean_gn = 0;
        if constexpr (kCentred) {
            // both sums behind one barrier
            mean_g = warp_sum(sum_g);
            if (threadIdx.x % kWarp == 0) slots[parity][1][(threadIdx.y * blockDim.x + threadIdx.x) / kWarp] = mean_g;
        }
        mean_gn = row_sum(sum_gn, slots[parity][0]) * per_column;
        if constexpr (kCentred) {
            mean_g = 0;
            const unsigned warps = blockDim.x / kWarp;
            for (unsigned w = 0; w < warps; ++w) mean_g += slots[parity][1][threadIdx.y * warps + w];
            mean_g *= per_column;
        }
        if (row >= end) continue;
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            float out[kNormWidth];
#pragma unroll
            for (int i = 0; i < kNormWidth; ++i) {
                const float n = (x[v][i] - m) * r;
                out[i] = r * (weight[v][i] * dy[v][i] - mean_g - n * mean_gn);
                if constexpr (kPassed) out[i] += passed[v][i];
            }
            store_part<kAligned>(p.dx.row(row) + norm_column(v), rounded<Bf16>(out), columns - norm_column(v));
        }
    }
    store_sums<kAligned>(p.partials + group * columns, columns, sums.weight);
    if constexpr (kCentred) store_sums<kAligned>(p.partials + (groups + group) * columns, columns, sums.bias);
}

template <int kVectors, bool kAligned, bool kCentred, bool kPassed>
void launch(Stream stream, const NormGeometry& g, unsigned blocks, const Backward& p) {
    const auto kernel = norm_backward_kernel<kVectors, kAligned, kCentred, kPassed>;
    const std::size_t shared = RowsUnderWay<kVectors, kAligned, kPassed>::kBytesPerThread * g.threads * g.rows;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
          "shared memory of norm_backward");
    kernel<<<blocks, dim3(g.threads, g.rows), shared, stream>>>(p);
    check_launch("norm_backward");
}

template <int kVectors, bool kAligned>
void launch(Stream stream, const NormGeometry& g, unsigned blocks, const Backward& p) {
    const bool passed = p.in.passed.data != nullptr;
    if (p.in.weights.bias == nullptr)
        passed ? launch<kVectors, kAligned, false, true>(stream, g, blocks, p)
               : launch<kVectors, kAligned, false, false>(stream, g, blocks, p);
    else
        passed ? launch<kVectors, kAligned, true, true>(stream, g, blocks, p)
               : launch<kVectors, kAligned, true, false>(stream, g, blocks, p);
}

bool in_whole_vectors(const Backward& p) {
    const auto whole = [](auto... views) { return (cuda::in_whole_vectors<kNormWidth>(views) && ...); };
    return whole(p.in.dy, p.in.x, p.dx) && (p.in.passed.data == nullptr || whole(p.in.passed)) &&
           cuda::in_whole_vectors<kNormWidth>(p.in.weights.weight, 0) && cuda::in_whole_vectors<4>(p.partials, 0);
}

}  // namespace

void norm_backward(Stream stream, const NormBackward& in, Bf16Matrix dx, const NormGradients& gradients,
                   Scratch scratch) {
    const bool centred = in.weights.bias != nullptr;
    const std::int64_t columns = in.x.columns;
    SLUICE_CHECK(same_shape(in.dy, in.x) && same_shape(in.x, dx) &&
                     (in.passed.data == nullptr || same_shape(in.passed, in.x)) &&
                     centred == (gradients.bias != nullptr),
                 "the shapes of a norm's backward agree");
    if (in.x.rows == 0 || columns == 0) return;
    const NormGeometry g = norm_geometry(columns);
    // by the shape alone, so that the order of the sums is: two blocks for each SM of an H200
    const std::int64_t fit = kScratchFloats / (g.rows * columns * (centred ? 2 : 1));
    const std::int64_t blocks = std::min({ceil_div(in.x.rows, g.rows), std::int64_t{264}, fit});
    const std::int64_t groups = blocks * g.rows;
    SLUICE_CHECK(groups * columns * (centred ? 2 : 1) <= scratch.floats, "scratch memory holds the sums of a norm");
    const Backward p{in, dx, scratch.data};
    const bool whole = in_whole_vectors(p);
    const auto grid = static_cast<unsigned>(blocks);
    if (g.vectors == 2)
        whole ? launch<2, true>(stream, g, grid, p) : launch<2, false>(stream, g, grid, p);
    else
        whole ? launch<4, true>(stream, g, grid, p) : launch<4, false>(stream, g, grid, p);
    add_partial_rows(stream, scratch.data, groups, columns, gradients.weight);
    if (centred) add_partial_rows(stream, scratch.data + groups * columns, groups, columns, gradients.bias);
}

}  // namespace sluice::cuda
