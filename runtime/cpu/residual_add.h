// sum = a + b, element by element: the residual stream, forward; and gradients that meet, backward.
#pragma once

#include "runtime/matrix_view.h"

namespace sluice {

// All of one shape; sum is overwritten and may be a or b itself.
void residual_add(ConstMatrixView a, ConstMatrixView b, MatrixView sum);

}  // namespace sluice
