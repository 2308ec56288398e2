// RMSNorm over rows of `columns` = hidden (Zhang and Sennrich 2019; LlamaRMSNorm of Hugging Face):
//
//   r = 1 / sqrt(mean(x^2) + epsilon),   y = weight * (x * r)
//
// Saved for backward: x itself (the block input or the middle residual) and r, one float per row. The output is saved
// too where it feeds a GEMM, or made again: forward on the same x gives the same bits.
#pragma once

#include <span>

#include "runtime/matrix_view.h"

namespace sluice {

// y (rows, hidden) and reciprocal (rows) are overwritten. y may be x itself; nothing else may overlap.
void rms_norm_forward(ConstMatrixView x, std::span<const float> weight, float epsilon, MatrixView y,
                      std::span<float> reciprocal);

struct RmsNormBackward {
    ConstMatrixView dy;  // (rows, hidden)
    ConstMatrixView x;   // as given to forward
    std::span<const float> weight;
    std::span<const float> reciprocal;  // as forward left it
    ConstMatrixView passed;             // gradient that arrives around the norm, by the residual; data null for none
};

// dx = passed + r (weight dy) - x r^3 / hidden * sum(weight dy x), overwritten; dweight += sum over rows of dy x r.
// dx may be `passed` or `dy` itself; nothing else may overlap.
void rms_norm_backward(const RmsNormBackward& in, MatrixView dx, std::span<float> dweight);

}  // namespace sluice
