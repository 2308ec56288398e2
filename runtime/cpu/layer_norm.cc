#include "runtime/cpu/layer_norm.h"

#include <cmath>

#include "base/error.h"
#include "runtime/cpu/column_sums.h"
#include "runtime/cpu/lane_sum.h"

namespace sluice {
namespace {

struct RowStatistics {
    float mean, reciprocal;
};

RowStatistics statistics_of(const float* x, std::int64_t columns, float epsilon) {
    const auto count = static_cast<float>(columns);
    const float mean = lane_sum<float>(columns, [x](std::int64_t c) { return x[c]; }) / count;
    const float squares = lane_sum<float>(columns, [=](std::int64_t c) { return (x[c] - mean) * (x[c] - mean); });
    return {mean, 1.0F / std::sqrt(squares / count + epsilon)};
}

void check_shapes(const LayerNormBackward& in, MatrixView dx, std::span<float> dweight, std::span<float> dbias) {
    const std::int64_t rows = in.x.rows, columns = in.x.columns;
    SLUICE_CHECK(same_shape(in.dy, in.x) && same_shape(in.x, dx) && std::ssize(in.weight) == columns &&
                     std::ssize(in.mean) == rows && std::ssize(in.reciprocal) == rows &&
                     std::ssize(dweight) == columns && std::ssize(dbias) == columns &&
                     (in.passed.data == nullptr || same_shape(in.passed, in.x)),
                 "the shapes of a LayerNorm's backward agree");
}

}  // namespace

void layer_norm_forward(ConstMatrixView x, const LayerNormParameters& p, MatrixView y, LayerNormStatistics statistics) {
    SLUICE_CHECK(same_shape(x, y) && std::ssize(p.weight) == x.columns && std::ssize(p.bias) == x.columns &&
                     std::ssize(statistics.mean) == x.rows && std::ssize(statistics.reciprocal) == x.rows,
                 "the shapes of a LayerNorm agree");
    const float *w = p.weight.data(), *b = p.bias.data();
    for (std::int64_t t = 0; t < x.rows; ++t) {
        const float* in = x.row(t);
        float* out = y.row(t);
        const RowStatistics s = statistics_of(in, x.columns, p.epsilon);
#pragma omp simd  // in place or apart, never shifted
        for (std::int64_t c = 0; c < x.columns; ++c) out[c] = w[c] * ((in[c] - s.mean) * s.reciprocal) + b[c];
        statistics.mean[static_cast<std::size_t>(t)] = s.mean;
        statistics.reciprocal[static_cast<std::size_t>(t)] = s.reciprocal;
    }
}

void layer_norm_backward(const LayerNormBackward& in, MatrixView dx, std::span<float> dweight, std::span<float> dbias) {
    check_shapes(in, dx, dweight, dbias);
    const std::int64_t rows = in.x.rows, columns = in.x.columns;
    const auto count = static_cast<float>(columns);
    const auto row = [](std::int64_t t) { return static_cast<std::size_t>(t); };
    // first, since dx may overwrite dy
    add_column_sums(rows, dweight, [&](std::int64_t t, std::int64_t c) {
        return in.dy.row(t)[c] * ((in.x.row(t)[c] - in.mean[row(t)]) * in.reciprocal[row(t)]);
    });
    add_column_sums(rows, dbias, [&](std::int64_t t, std::int64_t c) { return in.dy.row(t)[c]; });
    const float* w = in.weight.data();
    for (std::int64_t t = 0; t < rows; ++t) {
        const float *dy = in.dy.row(t), *x = in.x.row(t);
        float* out = dx.row(t);
        const float m = in.mean[row(t)], r = in.reciprocal[row(t)];
        const float mean_g = lane_sum<float>(columns, [=](std::int64_t c) { return w[c] * dy[c]; }) / count;
        const float mean_gn =
            lane_sum<float>(columns, [=](std::int64_t c) { return w[c] * dy[c] * ((x[c] - m) * r); }) / count;
        const auto gradient = [=](std::int64_t c) { return r * (w[c] * dy[c] - mean_g - (x[c] - m) * r * mean_gn); };
        if (in.passed.data == nullptr) {
#pragma omp simd  // in place or apart, never shifted
            for (std::int64_t c = 0; c < columns; ++c) out[c] = gradient(c);
        } else {
            const float* passed = in.passed.row(t);
#pragma omp simd  // in place or apart, never shifted
            for (std::int64_t c = 0; c < columns; ++c) out[c] = passed[c] + gradient(c);
        }
    }
}

}  // namespace sluice
