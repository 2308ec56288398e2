// GELU (Hendrycks and Gimpel 2016), y = x Phi(x), in the two forms that models use. Elementwise, so ffn columns shard
// freely. Saved for backward: x (the first MLP output). The output is saved too, or made again: the same bits.
#pragma once

#include "runtime/matrix_view.h"

namespace sluice {

enum class GeluForm : std::uint8_t {
    kTanh,  // GPT-2 ("gelu_new" of Hugging Face): x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
    kErf,   // GPT-NeoX ("gelu" of Hugging Face): x/2 erfc(-x / sqrt(2)), exact; std::erfc, not vectorised
};

// x, y: (tokens, ffn). y is overwritten and may be x itself.
void gelu_forward(GeluForm form, ConstMatrixView x, MatrixView y);

// dx = dy * dy/dx, overwritten; may be dy or x itself.
void gelu_backward(GeluForm form, ConstMatrixView dy, ConstMatrixView x, MatrixView dx);

}  // namespace sluice
