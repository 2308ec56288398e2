#include "base/error.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/map_rows.cuh"
#include "runtime/cuda/reduce.cuh"

namespace sluice::cuda {
namespace {

struct ResidualAdd {
    ConstBf16Matrix a, b;
    Bf16Matrix sum;
    template <int kWidth>
    struct Loaded {
        Vector<Bf16, kWidth> a, b;
    };
    template <int kWidth>
    __device__ Loaded<kWidth> load(std::int64_t row, std::int64_t column) const {
        return {cuda::load<kWidth>(a.row(row) + column), cuda::load<kWidth>(b.row(row) + column)};
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Loaded<kWidth>& in) const {
        float out[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) out[i] = in.a[i] + in.b[i];
        cuda::store(sum.row(row) + column, rounded<Bf16>(out));
    }
};

template <bool kBegins>
struct Accumulate {
    ConstBf16Matrix values;
    Fp32Matrix sum;
    template <int kWidth>
    struct Loaded {
        Vector<Bf16, kWidth> value;
        Vector<float, kWidth> sum;
    };
    template <int kWidth>
    __device__ Loaded<kWidth> load(std::int64_t row, std::int64_t column) const {
        Loaded<kWidth> in{cuda::load<kWidth>(values.row(row) + column), {}};
        if constexpr (!kBegins) in.sum = cuda::load<kWidth>(sum.row(row) + column);
        return in;
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Loaded<kWidth>& in) const {
        float out[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) out[i] = kBegins ? in.value[i] : in.sum[i] + in.value[i];
        cuda::store(sum.row(row) + column, rounded<float>(out));
    }
};

struct Round {
    ConstFp32Matrix values;
    Bf16Matrix out;
    template <int kWidth>
    __device__ Vector<float, kWidth> load(std::int64_t row, std::int64_t column) const {
        return cuda::load<kWidth>(values.row(row) + column);
    }
    template <int kWidth>
    __device__ void store(std::int64_t row, std::int64_t column, const Vector<float, kWidth>& in) const {
        float floats[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) floats[i] = in[i];
        cuda::store(out.row(row) + column, rounded<Bf16>(floats));
    }
};

void round_rows(Stream stream, ConstFp32Matrix values, Bf16Matrix out) {
    map_rows<4, 4>(stream, "round_to_bf16", Round{values, out}, out.rows, out.columns,
                   in_whole_vectors<4>(values) && in_whole_vectors<4>(out));
}

template <class Element, int kWidth>
__global__ void __launch_bounds__(kMapThreads)
    count_non_finite_kernel(const Element* values, const std::int64_t vectors, unsigned long long* count) {
    __shared__ unsigned found_by[kMaxWarps];
    constexpr int kUnroll = 4;
    constexpr std::int64_t kThreads = kMapThreads;
    unsigned found = 0;
    for (std::int64_t first = blockIdx.x * kThreads * kUnroll + threadIdx.x; first < vectors;
         first += gridDim.x * kThreads * kUnroll) {
        Vector<Element, kWidth> v[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t place = first + u * kThreads;
            v[u] = place < vectors ? load<kWidth>(values + place * kWidth) : Vector<Element, kWidth>{};
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u)
#pragma unroll
            for (int i = 0; i < kWidth; ++i) found += isfinite(v[u][i]) ? 0U : 1U;
    }
    found = row_sum(found, found_by);
    if (threadIdx.x == 0 && found > 0) atomicAdd(count, static_cast<unsigned long long>(found));
}

template <int kWidth, class Element>
void count_vectors(Stream stream, const Element* values, std::int64_t vectors, unsigned long long* count) {
    if (vectors == 0) return;
    constexpr std::int64_t kBlocks = 1056;  // 8 for each SM of an H200; a block counts in 32 bits
    const auto blocks = static_cast<unsigned>(std::min(kBlocks, ceil_div(vectors, kMapThreads)));
    count_non_finite_kernel<Element, kWidth><<<blocks, kMapThreads, 0, stream>>>(values, vectors, count);
    check_launch("count_non_finite");
}

// Integers are added, so any order gives the same count.
template <int kWidth, class Element>
void count_all(Stream stream, const Element* values, std::int64_t values_count, unsigned long long* count) {
    const std::int64_t vectors = in_whole_vectors<kWidth>(values, 0) ? values_count / kWidth : 0;
    count_vectors<kWidth>(stream, values, vectors, count);
    count_vectors<1>(stream, values + vectors * kWidth, values_count - vectors * kWidth, count);
}

ConstBf16Matrix positions(Tokens begin, ConstBf16Matrix table, ConstBf16Matrix x) {
    SLUICE_CHECK(begin.value >= 0 && begin.value + x.rows <= table.rows && table.columns == x.columns,
                 "the table has a row for every position");
    return table.row_range(begin.value, x.rows);
}

}  // namespace

void residual_add(Stream stream, ConstBf16Matrix a, ConstBf16Matrix b, Bf16Matrix sum) {
    SLUICE_CHECK(same_shape(a, b) && same_shape(a, sum), "the shapes of a sum agree");
    map_rows<8, 2>(stream, "residual_add", ResidualAdd{a, b, sum}, sum.rows, sum.columns,
                   in_whole_vectors<8>(a) && in_whole_vectors<8>(b) && in_whole_vectors<8>(sum));
}

void add_bias(Stream stream, const Bf16* bias, Bf16Matrix x) {
    residual_add(stream, x, {bias, x.rows, x.columns, 0}, x);  // one row, again and again
}

void accumulate(Stream stream, ConstBf16Matrix values, Fp32Matrix sum, bool begins) {
    SLUICE_CHECK(same_shape(values, sum), "the shapes of a sum agree");
    const bool whole = in_whole_vectors<4>(values) && in_whole_vectors<4>(sum);
    if (begins)
        map_rows<4, 4>(stream, "accumulate", Accumulate<true>{values, sum}, sum.rows, sum.columns, whole);
    else
        map_rows<4, 2>(stream, "accumulate", Accumulate<false>{values, sum}, sum.rows, sum.columns, whole);
}

void add_learned_positions(Stream stream, Tokens begin, ConstBf16Matrix table, Bf16Matrix x) {
    residual_add(stream, x, positions(begin, table, x), x);
}

void learned_positions_backward(Stream stream, Tokens begin, ConstBf16Matrix dy, Fp32Matrix dtable) {
    SLUICE_CHECK(begin.value >= 0 && begin.value + dy.rows <= dtable.rows && dtable.columns == dy.columns,
                 "the table has a row for every position");
    accumulate(stream, dy, dtable.row_range(begin.value, dy.rows), false);
}

void round_to_bf16(Stream stream, const float* values, Bf16* out, std::int64_t count) {
    constexpr std::int64_t kRow = 1 << 16;  // a row's elements count in 32 bits, those of a whole tensor need not
    const std::int64_t rows = count / kRow, done = rows * kRow;
    round_rows(stream, {values, rows, kRow}, {out, rows, kRow});
    round_rows(stream, {values + done, 1, count - done}, {out + done, 1, count - done});
}

void count_non_finite(Stream stream, const Bf16* values, std::int64_t values_count, unsigned long long* count) {
    count_all<8>(stream, values, values_count, count);
}
void count_non_finite(Stream stream, const float* values, std::int64_t values_count, unsigned long long* count) {
    count_all<4>(stream, values, values_count, count);
}

}  // namespace sluice::cuda
