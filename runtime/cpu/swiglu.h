// SwiGLU (Shazeer 2020; LlamaMLP): y = silu(gate) * up with silu(g) = g / (1 + exp(-g)). Elementwise, so ffn columns
// shard freely. Saved for backward: gate and up (one buffer, its left and right columns, or two). The output is saved
// too, or made again by the same call: the same bits.
#pragma once

#include "runtime/matrix_view.h"

namespace sluice {

// gate, up, y: (tokens, ffn). y is overwritten and may be gate or up itself.
void swiglu_forward(ConstMatrixView gate, ConstMatrixView up, MatrixView y);

struct SwigluBackward {
    ConstMatrixView dy, gate, up;  // (tokens, ffn); gate and up as given to forward
};

// With s = 1 / (1 + exp(-gate)):  dup = dy gate s,   dgate = dy up s (1 + gate (1 - s)). Both overwritten; dgate and
// dup may each be any one of the inputs, but not one another.
void swiglu_backward(const SwigluBackward& in, MatrixView dgate, MatrixView dup);

}  // namespace sluice
