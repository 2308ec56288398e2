#include "runtime/cpu/swiglu.h"

#include "base/error.h"
#include "runtime/cpu/exponential.h"

namespace sluice {
namespace {

float sigmoid(float x) { return 1.0F / (1.0F + exponential(-x)); }

}  // namespace

void swiglu_forward(ConstMatrixView gate, ConstMatrixView up, MatrixView y) {
    SLUICE_CHECK(same_shape(gate, up) && same_shape(gate, y), "the shapes of a SwiGLU agree");
    for (std::int64_t t = 0; t < gate.rows; ++t) {
        const float *g = gate.row(t), *u = up.row(t);
        float* out = y.row(t);
#pragma omp simd  // in place or apart, never shifted
        for (std::int64_t c = 0; c < gate.columns; ++c) out[c] = g[c] * sigmoid(g[c]) * u[c];
    }
}

void swiglu_backward(const SwigluBackward& in, MatrixView dgate, MatrixView dup) {
    SLUICE_CHECK(same_shape(in.gate, in.up) && same_shape(in.gate, in.dy) && same_shape(in.gate, dgate) &&
                     same_shape(in.gate, dup),
                 "the shapes of a SwiGLU's backward agree");
    for (std::int64_t t = 0; t < in.gate.rows; ++t) {
        const float *dy = in.dy.row(t), *gate = in.gate.row(t), *up = in.up.row(t);
        float *to_gate = dgate.row(t), *to_up = dup.row(t);
#pragma omp simd  // in place or apart, never shifted
        for (std::int64_t c = 0; c < in.gate.columns; ++c) {
            const float g = gate[c], u = up[c], d = dy[c], s = sigmoid(g);
            to_gate[c] = d * u * s * (1.0F + g * (1.0F - s));
            to_up[c] = d * g * s;
        }
    }
}

}  // namespace sluice
