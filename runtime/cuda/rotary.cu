#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/rotary.h"
#include "runtime/cuda/vector.cuh"

namespace sluice::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostPairs = 256;  // of a head: their frequencies are an argument of the kernel
constexpr std::int64_t kMostTokens = 16;  // of a block

// What is turned: the values of a matrix, or the sums of two.
template <class Element>
struct Values {
    BasicMatrixView<const Element> x;
    template <bool kAligned, int kWidth>
    __device__ Vector<Element, kWidth> load(std::int64_t row, std::int64_t column, std::int64_t left) const {
        return load_part<kAligned, kWidth>(x.row(row) + column, left);
    }
};
template <class Element>
struct Sums {
    BasicMatrixView<const Element> x;
    ConstBf16Matrix added;
    template <int kWidth>
    struct Loaded {
        Vector<Element, kWidth> x;
        Vector<Bf16, kWidth> added;
        __device__ float operator[](int i) const { return x[i] + added[i]; }
    };
    template <bool kAligned, int kWidth>
    __device__ Loaded<kWidth> load(std::int64_t row, std::int64_t column, std::int64_t left) const {
        return {load_part<kAligned, kWidth>(x.row(row) + column, left),
                load_part<kAligned, kWidth>(added.row(row) + column, left)};
    }
};

template <class Source>
struct Rotation {
    Source source;
    Bf16Matrix out;
    std::int64_t begin;       // position of row 0
    float sign;               // of the angle
    unsigned head_dim, half;  // half: pairs of a head
    unsigned rotated_heads;
    bool copies;      // columns that are not turned go to out as they are
    unsigned tokens;  // of a block
    // Per pair: half turns from one position to the next, theta^(-2 j / rotary_dim) / pi. Made on the host: a power in
    // double for every block would take longer than the memory does.
    double half_turns[kMostPairs];
};

// cosine and sine of each token and pair of the block. Whole turns are taken off in double, so what is left is exact
// to 2^-24 at any position, and only then comes fp32.
template <class Source>
__device__ void make_angles(const Rotation<Source>& p, std::int64_t first, unsigned tokens, float* cosine,
                            float* sine) {
    for (unsigned i = threadIdx.x; i < tokens * p.half; i += kThreads) {
        const unsigned t = i / p.half;
        const double turned = static_cast<double>(p.begin + first + t) * p.half_turns[i - t * p.half];
        const auto rest = static_cast<float>(turned - 2.0 * rint(0.5 * turned));
        float s, c;
        sincospif(rest, &s, &c);
        cosine[i] = c;
        sine[i] = p.sign * s;
    }
}

// Calls load(item) for kUnroll items, then store(item, loaded) for each, until `items` are done.
template <int kUnroll, class Load, class Store>
__device__ void for_items(unsigned items, Load load, Store store) {
    using Loaded = decltype(load(0U));
    for (unsigned first = threadIdx.x; first < items; first += kThreads * kUnroll) {
        Loaded loaded[kUnroll];
#pragma unroll
        for (unsigned u = 0; u < kUnroll; ++u)
            if (first + u * kThreads < items) loaded[u] = load(first + u * kThreads);
#pragma unroll
        for (unsigned u = 0; u < kUnroll; ++u)
            if (first + u * kThreads < items) store(first + u * kThreads, loaded[u]);
    }
}

// A piece of a row: kWidth neighbouring columns, fewer at an end.
struct Piece {
    std::int64_t row, column;
    unsigned token, pair;  // of the block; first pair of the piece
    std::int64_t left;
};

// kWidth pairs of one head of one token.
template <int kWidth, class Source>
__device__ Piece pairs_at(const Rotation<Source>& p, std::int64_t first, unsigned item) {
    const unsigned per_head = (p.half + kWidth - 1) / kWidth, per_token = per_head * p.rotated_heads;
    const unsigned token = item / per_token, in_token = item - token * per_token;
    const unsigned head = in_token / per_head, pair = (in_token - head * per_head) * kWidth;
    return {first + token, static_cast<std::int64_t>(head) * p.head_dim + pair, token, pair,
            static_cast<std::int64_t>(p.half) - pair};
}

// Columns that are not turned: the ends of the turned heads, then the other heads.
struct PlainColumns {
    unsigned per_head, ends, per_token;  // pieces
};
template <int kWidth, class Source>
__device__ PlainColumns plain_columns(const Rotation<Source>& p) {
    const unsigned per_head = (p.head_dim - 2 * p.half + kWidth - 1) / kWidth, ends = per_head * p.rotated_heads;
    const auto others = static_cast<unsigned>(p.out.columns) - p.rotated_heads * p.head_dim;
    return {per_head, ends, ends + (others + kWidth - 1) / kWidth};
}
template <int kWidth, class Source>
__device__ Piece plain_at(const Rotation<Source>& p, const PlainColumns& plain, std::int64_t first, unsigned item) {
    const unsigned token = item / plain.per_token, in_token = item - token * plain.per_token;
    if (in_token < plain.ends) {
        const unsigned head = in_token / plain.per_head, in_head = (in_token - head * plain.per_head) * kWidth;
        const unsigned in_end = 2 * p.half + in_head;
        return {first + token, static_cast<std::int64_t>(head) * p.head_dim + in_end, token, 0,
                static_cast<std::int64_t>(p.head_dim) - in_end};
    }
    const std::int64_t column = static_cast<std::int64_t>(p.rotated_heads) * p.head_dim +
                                (in_token - plain.ends) * static_cast<std::int64_t>(kWidth);
    return {first + token, column, token, 0, p.out.columns - column};
}

template <bool kAligned, int kWidth, class Source>
__global__ void __launch_bounds__(kThreads) rotate_kernel(const __grid_constant__ Rotation<Source> p) {
    extern __shared__ float angles[];
    float *const cosine = angles, *const sine = angles + p.tokens * p.half;
    const std::int64_t first = blockIdx.x * static_cast<std::int64_t>(p.tokens);
    const auto tokens = static_cast<unsigned>(min(static_cast<std::int64_t>(p.tokens), p.out.rows - first));
    make_angles(p, first, tokens, cosine, sine);
    __syncthreads();

    using Loaded = decltype(p.source.template load<kAligned, kWidth>(0, 0, 0));
    struct Pairs {
        Loaded low, high;
    };
    const auto load_pairs = [&](unsigned item) {
        const Piece at = pairs_at<kWidth>(p, first, item);
        return Pairs{p.source.template load<kAligned, kWidth>(at.row, at.column, at.left),
                     p.source.template load<kAligned, kWidth>(at.row, at.column + p.half, at.left)};
    };
    const auto turn = [&](unsigned item, const Pairs& pairs) {
        const Piece at = pairs_at<kWidth>(p, first, item);
        float low[kWidth], high[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const unsigned pair = min(at.pair + i, p.half - 1), angle = at.token * p.half + pair;
            const float a = pairs.low[i], b = pairs.high[i], c = cosine[angle], s = sine[angle];
            low[i] = a * c - b * s;
            high[i] = b * c + a * s;
        }
        Bf16* const to = p.out.row(at.row) + at.column;
        store_part<kAligned>(to, rounded<Bf16>(low), at.left);
        store_part<kAligned>(to + p.half, rounded<Bf16>(high), at.left);
    };
    const unsigned per_head = (p.half + kWidth - 1) / kWidth;
    for_items<2>(tokens * p.rotated_heads * per_head, load_pairs, turn);
    if (!p.copies) return;

    const PlainColumns plain = plain_columns<kWidth>(p);
    const auto load_plain = [&](unsigned item) {
        const Piece at = plain_at<kWidth>(p, plain, first, item);
        return p.source.template load<kAligned, kWidth>(at.row, at.column, at.left);
    };
    const auto copy = [&](unsigned item, const Loaded& in) {
        const Piece at = plain_at<kWidth>(p, plain, first, item);
        float values[kWidth];
#pragma unroll
        for (int i = 0; i < kWidth; ++i) values[i] = in[i];
        store_part<kAligned>(p.out.row(at.row) + at.column, rounded<Bf16>(values), at.left);
    };
    for_items<4>(tokens * plain.per_token, load_plain, copy);
}

// `whole`: every row of the source is in whole vectors.
template <int kWidth, class Source>
void launch(Stream stream, const RotaryShape& shape, Tokens begin, RotationSense sense, std::int64_t rotated_columns,
            const Source& source, bool whole, Bf16Matrix out, bool copies) {
    SLUICE_CHECK(shape.head_dim > 0 && shape.rotary_dim >= 0 && shape.rotary_dim % 2 == 0 &&
                     shape.rotary_dim <= shape.head_dim && shape.rotary_dim / 2 <= kMostPairs,
                 "rotary_dim is even, within the head and at most 512");
    SLUICE_CHECK(rotated_columns % shape.head_dim == 0 && rotated_columns <= out.columns &&
                     out.columns <= std::numeric_limits<std::int32_t>::max() / kMostTokens,
                 "rotation turns whole heads");
    Rotation<Source> p{source, out, begin.value, sense == RotationSense::kForward ? 1.0F : -1.0F, 0, 0, 0,
                       copies, 0,   {}};
    p.head_dim = static_cast<unsigned>(shape.head_dim);
    p.half = rotated_columns == 0 ? 0 : static_cast<unsigned>(shape.rotary_dim / 2);
    p.rotated_heads = p.half == 0 ? 0 : static_cast<unsigned>(rotated_columns / shape.head_dim);
    if (out.rows == 0 || out.columns == 0 || (p.rotated_heads == 0 && !copies)) return;
    for (unsigned j = 0; j < p.half; ++j)
        p.half_turns[j] = std::pow(shape.theta, -2.0 * j / static_cast<double>(shape.rotary_dim)) / std::numbers::pi;
    const std::int64_t pieces = ceil_div(out.columns, 2 * kWidth);
    p.tokens = static_cast<unsigned>(std::clamp<std::int64_t>(4 * kThreads / pieces, 1, kMostTokens));
    const auto blocks = static_cast<unsigned>(ceil_div(out.rows, p.tokens));
    const std::size_t shared = 2 * sizeof(float) * p.tokens * p.half;
    if (whole && in_whole_vectors<kWidth>(out) && p.half % kWidth == 0 && p.head_dim % kWidth == 0)
        rotate_kernel<true, kWidth><<<blocks, kThreads, shared, stream>>>(p);
    else
        rotate_kernel<false, kWidth><<<blocks, kThreads, shared, stream>>>(p);
    check_launch("rotate");
}

template <int kWidth, class Element>
void rotate_and_round_as(Stream stream, const RotaryShape& shape, Tokens begin, RotationSense sense,
                         std::int64_t rotated_columns, BasicMatrixView<const Element> x, ConstBf16Matrix added,
                         Bf16Matrix out) {
    SLUICE_CHECK(same_shape(added, out) && (x.data == nullptr || same_shape(x, out)), "the shapes of a sum agree");
    if (x.data == nullptr)
        launch<8>(stream, shape, begin, sense, rotated_columns, Values<Bf16>{added}, in_whole_vectors<8>(added), out,
                  true);
    else
        launch<kWidth>(stream, shape, begin, sense, rotated_columns, Sums<Element>{x, added},
                       in_whole_vectors<kWidth>(added) && in_whole_vectors<kWidth>(x), out, true);
}

}  // namespace

void rotate(Stream stream, const RotaryShape& shape, Tokens begin, RotationSense sense, Bf16Matrix x) {
    launch<8>(stream, shape, begin, sense, x.columns, Values<Bf16>{x}, in_whole_vectors<8>(x), x, false);
}

void rotate_and_round(Stream stream, const RotaryShape& shape, Tokens begin, RotationSense sense,
                      std::int64_t rotated_columns, ConstFp32Matrix x, ConstBf16Matrix added, Bf16Matrix out) {
    rotate_and_round_as<4, float>(stream, shape, begin, sense, rotated_columns, x, added, out);
}
void rotate_and_round(Stream stream, const RotaryShape& shape, Tokens begin, RotationSense sense,
                      std::int64_t rotated_columns, ConstBf16Matrix x, ConstBf16Matrix added, Bf16Matrix out) {
    rotate_and_round_as<8, Bf16>(stream, shape, begin, sense, rotated_columns, x, added, out);
}

}  // namespace sluice::cuda
