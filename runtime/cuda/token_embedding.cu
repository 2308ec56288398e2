#include "base/error.h"
#include "runtime/cuda/map_rows.cuh"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/token_embedding.h"

namespace sluice::cuda {
namespace {

struct Gather {
    const TokenId* ids;
    VocabularyShard shard;
    ConstBf16Matrix table;
    Bf16Matrix out;
    template <int kWidth>
    __device__ Vector<Bf16, kWidth> load(std::int64_t row, std::int64_t column) const {
        const TokenId id = ids[row];
        if (!shard.holds(id)) return {};
        return cuda::load<kWidth>(table.row(id - shard.first) + column);
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Vector<Bf16, kWidth>& in) const {
        cuda::store(out.row(row) + column, in);
    }
};

constexpr int kWidth = 4;           // columns of a lane: 16 bytes of the gradient, 8 of dout
constexpr int kUnroll = 8;          // tokens under way
constexpr unsigned kWarps = 16;     // of a block, and rows of the table
constexpr std::int64_t kLong = 16;  // tokens of a row above which all warps of a block share it
constexpr std::int64_t kSegment = static_cast<std::int64_t>(kWarp) * kWidth;  // columns of a block

// sum += dout[token[i]] for i = first, first + step, ... below end, in that order.
template <bool kAligned>
__device__ void add_tokens(float (&sum)[kWidth], const ConstBf16Matrix& dout, const std::int32_t* token,
                           std::int64_t first, std::int64_t end, std::int64_t step, std::int64_t column) {
    for (std::int64_t i = first; i < end; i += step * kUnroll) {
        Vector<Bf16, kWidth> v[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t place = i + u * step;
            const std::int64_t row = token[place < end ? place : i];
            v[u] = load_part<kAligned, kWidth>(dout.row(row) + column, place < end ? dout.columns - column : 0);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
            for (int c = 0; c < kWidth; ++c) sum[c] += v[u][c];
    }
}

template <bool kAligned>
__device__ void add_to_table(const Fp32Matrix& dtable, std::int64_t row, std::int64_t column,
                             const float (&sum)[kWidth]) {
    const std::int64_t left = dtable.columns - column;
    float* const to = dtable.row(row) + column;
    const Vector<float, kWidth> before = load_part<kAligned, kWidth>(to, left);
    float after[kWidth];
#pragma unroll
    for (int c = 0; c < kWidth; ++c) after[c] = before[c] + sum[c];
    store_part<kAligned>(to, rounded<float>(after), left);
}

// A block has kWarps rows of the table and a segment of columns. Each warp sums a row of few tokens alone; then all
// warps together take the rows of many, a sixteenth of the tokens each: the most frequent token of a text has a tenth
// of all, and would hold up one warp long after the others have ended.
template <bool kAligned>
__global__ void __launch_bounds__(kWarp* kWarps)
    embedding_backward_kernel(const DeviceSortedTokens sorted, const ConstBf16Matrix dout, const Fp32Matrix dtable) {
    __shared__ float tile[kWarps][kSegment];
    const std::int64_t column = blockIdx.y * kSegment + threadIdx.x * kWidth;
    const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(kWarps), own = first + threadIdx.y;
    if (own < sorted.rows) {
        const std::int64_t begin = sorted.begin[own], end = sorted.begin[own + 1];
        if (end - begin <= kLong) {
            float sum[kWidth] = {};
            add_tokens<kAligned>(sum, dout, sorted.token, begin, end, 1, column);
            add_to_table<kAligned>(dtable, sorted.row[own], column, sum);
        }
    }
    for (std::int64_t r = first; r < first + kWarps && r < sorted.rows; ++r) {
        const std::int64_t begin = sorted.begin[r], end = sorted.begin[r + 1];
        if (end - begin <= kLong) continue;  // for all threads of the block alike
        float sum[kWidth] = {};
        add_tokens<kAligned>(sum, dout, sorted.token, begin + threadIdx.y, end, kWarps, column);
#pragma unroll
        for (int c = 0; c < kWidth; ++c) tile[threadIdx.y][threadIdx.x * kWidth + c] = sum[c];
        __syncthreads();
        if (threadIdx.y == 0) {
            float total[kWidth] = {};
            for (unsigned w = 0; w < kWarps; ++w)
#pragma unroll
                for (int c = 0; c < kWidth; ++c) total[c] += tile[w][threadIdx.x * kWidth + c];
            add_to_table<kAligned>(dtable, sorted.row[r], column, total);
        }
        __syncthreads();
    }
}

}  // namespace

void token_embedding_forward(Stream stream, const TokenId* ids, VocabularyShard shard, ConstBf16Matrix table,
                             Bf16Matrix out) {
    SLUICE_CHECK(table.rows == shard.count && table.columns == out.columns, "the shapes of a token embedding agree");
    map_rows<8, 4>(stream, "token_embedding_forward", Gather{ids, shard, table, out}, out.rows, out.columns,
                   in_whole_vectors<8>(table) && in_whole_vectors<8>(out));
}

void token_embedding_backward(Stream stream, DeviceSortedTokens sorted, ConstBf16Matrix dout, Fp32Matrix dtable) {
    SLUICE_CHECK(dout.columns == dtable.columns, "the shapes of a token embedding agree");
    if (sorted.rows == 0 || dout.columns == 0) return;
    const dim3 grid(static_cast<unsigned>(ceil_div(sorted.rows, kWarps)),
                    static_cast<unsigned>(ceil_div(dout.columns, kSegment)));
    const dim3 block(kWarp, kWarps);
    if (in_whole_vectors<kWidth>(dout) && in_whole_vectors<kWidth>(dtable))
        embedding_backward_kernel<true><<<grid, block, 0, stream>>>(sorted, dout, dtable);
    else
        embedding_backward_kernel<false><<<grid, block, 0, stream>>>(sorted, dout, dtable);
    check_launch("token_embedding_backward");
}

}  // namespace sluice::cuda
