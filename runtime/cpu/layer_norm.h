// LayerNorm over rows of `columns` = hidden (Ba et al. 2016), biased variance as everybody's:
//
//   m = mean(x),   r = 1 / sqrt(mean((x - m)^2) + epsilon),   y = weight * ((x - m) r) + bias
//
// Saved for backward: x itself, and m and r, two floats per row. The output is saved too where it feeds a GEMM, or made
// again: forward on the same x gives the same bits. The variance is of the differences, in a second pass: the mean of
// squares minus the square of the mean cancels where |m| is large.
#pragma once

#include <span>

#include "runtime/matrix_view.h"

namespace sluice {

struct LayerNormParameters {
    std::span<const float> weight, bias;  // (hidden)
    float epsilon = 1e-5F;
};

struct LayerNormStatistics {
    std::span<float> mean, reciprocal;  // (rows)
};

// y (rows, hidden) and statistics are overwritten. y may be x itself; nothing else may overlap.
void layer_norm_forward(ConstMatrixView x, const LayerNormParameters&, MatrixView y, LayerNormStatistics);

struct LayerNormBackward {
    ConstMatrixView dy;  // (rows, hidden)
    ConstMatrixView x;   // as given to forward
    std::span<const float> weight;
    std::span<const float> mean, reciprocal;  // as forward left them
    ConstMatrixView passed;  // gradient that arrives around the norm, by the residual; data null for none
};

// With g = weight dy and n = (x - m) r:  dx = passed + r (g - mean(g) - n mean(g n)), overwritten;
// dweight += sum over rows of dy n, dbias += sum over rows of dy.
// dx may be `passed` or `dy` itself; nothing else may overlap.
void layer_norm_backward(const LayerNormBackward& in, MatrixView dx, std::span<float> dweight, std::span<float> dbias);

}  // namespace sluice
