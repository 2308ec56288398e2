#include "runtime/cpu/rms_norm.h"

#include <cmath>

#include "base/error.h"
#include "runtime/cpu/column_sums.h"
#include "runtime/cpu/lane_sum.h"

namespace sluice {

void rms_norm_forward(ConstMatrixView x, std::span<const float> weight, float epsilon, MatrixView y,
                      std::span<float> reciprocal) {
    SLUICE_CHECK(same_shape(x, y) && std::ssize(weight) == x.columns && std::ssize(reciprocal) == x.rows,
                 "the shapes of an RMSNorm agree");
    const float* w = weight.data();
    for (std::int64_t t = 0; t < x.rows; ++t) {
        const float* in = x.row(t);
        float* out = y.row(t);
        const float squares = lane_sum<float>(x.columns, [in](std::int64_t c) { return in[c] * in[c]; });
        const float r = 1.0F / std::sqrt(squares / static_cast<float>(x.columns) + epsilon);
#pragma omp simd  // in place or apart, never shifted
        for (std::int64_t c = 0; c < x.columns; ++c) out[c] = w[c] * (in[c] * r);
        reciprocal[static_cast<std::size_t>(t)] = r;
    }
}

void rms_norm_backward(const RmsNormBackward& in, MatrixView dx, std::span<float> dweight) {
    const std::int64_t rows = in.x.rows, columns = in.x.columns;
    SLUICE_CHECK(same_shape(in.dy, in.x) && same_shape(in.x, dx) && std::ssize(in.weight) == columns &&
                     std::ssize(in.reciprocal) == rows && std::ssize(dweight) == columns &&
                     (in.passed.data == nullptr || same_shape(in.passed, in.x)),
                 "the shapes of an RMSNorm's backward agree");
    // first, since dx may overwrite dy
    add_column_sums(rows, dweight, [&in](std::int64_t t, std::int64_t c) {
        return in.dy.row(t)[c] * (in.x.row(t)[c] * in.reciprocal[static_cast<std::size_t>(t)]);
    });
    const float* w = in.weight.data();
    for (std::int64_t t = 0; t < rows; ++t) {
        const float *dy = in.dy.row(t), *x = in.x.row(t);
        float* out = dx.row(t);
        const float r = in.reciprocal[static_cast<std::size_t>(t)];
        const float dot = lane_sum<float>(columns, [=](std::int64_t c) { return w[c] * dy[c] * (x[c] * r); });
        const float mean = dot / static_cast<float>(columns);
        const auto gradient = [=](std::int64_t c) { return r * (w[c] * dy[c] - x[c] * r * mean); };
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
