#include "runtime/cpu/residual_add.h"

#include "base/error.h"

namespace sluice {

void residual_add(ConstMatrixView a, ConstMatrixView b, MatrixView sum) {
    SLUICE_CHECK(same_shape(a, b) && same_shape(a, sum), "the shapes of a sum agree");
    for (std::int64_t t = 0; t < a.rows; ++t) {
        const float *x = a.row(t), *y = b.row(t);
        float* out = sum.row(t);
#pragma omp simd  // in place or apart, never shifted
        for (std::int64_t c = 0; c < a.columns; ++c) out[c] = x[c] + y[c];
    }
}

}  // namespace sluice
