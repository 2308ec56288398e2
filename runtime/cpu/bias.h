// The bias of a linear layer. Column-parallel layers hold the bias of their own columns; row-parallel ones hold all of
// it on every rank and add it once, after the reduce-scatter, to the rank's own tokens.
#pragma once

#include <span>

#include "runtime/matrix_view.h"

namespace sluice {

// y[t] += bias for every row. No overlap.
void add_bias(std::span<const float> bias, MatrixView y);

// dbias += sum over rows of dy.
void bias_backward(ConstMatrixView dy, std::span<float> dbias);

}  // namespace sluice
