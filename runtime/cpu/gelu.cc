#include "runtime/cpu/gelu.h"

#include <cmath>

#include "base/error.h"
#include "runtime/cpu/exponential.h"

namespace sluice {
namespace {

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)): no cancellation for very negative x
constexpr float kTwoRootTwoOverPi = 1.5957691216F;  // 2 sqrt(2 / pi)
constexpr float kCubic = 0.044715F;

float tanh_weight(float x) { return 1.0F / (1.0F + exponential(-kTwoRootTwoOverPi * (x + kCubic * x * x * x))); }

float tanh_value(float x) { return x * tanh_weight(x); }

float tanh_slope(float x) {
    const float s = tanh_weight(x);
    // s (1 - s) is 0 long before x^3 overflows, and 0 * infinity would be NaN: the slope is s itself out there
    const float bend = kTwoRootTwoOverPi * (1.0F + 3.0F * kCubic * x * x) * x * (s * (1.0F - s));
    return x * x < 1e4F ? s + bend : s;
}

float erf_weight(float x) { return 0.5F * std::erfc(-x * 0.70710678F); }

float erf_value(float x) { return x * erf_weight(x); }

float erf_slope(float x) { return erf_weight(x) + x * 0.39894228F * exponential(-0.5F * x * x); }

template <class Function>
void map(ConstMatrixView x, MatrixView y, Function f) {
    for (std::int64_t t = 0; t < x.rows; ++t) {
        const float* in = x.row(t);
        float* out = y.row(t);
#pragma omp simd  // in place or apart, never shifted
        for (std::int64_t c = 0; c < x.columns; ++c) out[c] = f(in[c]);
    }
}

template <class Slope>
void chain(ConstMatrixView dy, ConstMatrixView x, MatrixView dx, Slope slope) {
    for (std::int64_t t = 0; t < x.rows; ++t) {
        const float *d = dy.row(t), *in = x.row(t);
        float* out = dx.row(t);
#pragma omp simd  // in place or apart, never shifted
        for (std::int64_t c = 0; c < x.columns; ++c) out[c] = d[c] * slope(in[c]);
    }
}

}  // namespace

void gelu_forward(GeluForm form, ConstMatrixView x, MatrixView y) {
    SLUICE_CHECK(same_shape(x, y), "the shapes of a GELU agree");
    if (form == GeluForm::kTanh)
        map(x, y, tanh_value);
    else
        map(x, y, erf_value);
}

void gelu_backward(GeluForm form, ConstMatrixView dy, ConstMatrixView x, MatrixView dx) {
    SLUICE_CHECK(same_shape(x, dy) && same_shape(x, dx), "the shapes of a GELU's backward agree");
    if (form == GeluForm::kTanh)
        chain(dy, x, dx, tanh_slope);
    else
        chain(dy, x, dx, erf_slope);
}

}  // namespace sluice
