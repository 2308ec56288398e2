#include "runtime/cpu/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace sluice {
namespace {

blasint extent(std::int64_t n) {
    SLUICE_CHECK(n >= 0 && n <= std::numeric_limits<blasint>::max(), "an extent of a GEMM is within blasint");
    return static_cast<blasint>(n);
}

// BLAS wants a leading dimension of at least 1, even for an empty matrix.
blasint leading(ConstMatrixView m) { return extent(std::max<std::int64_t>({m.stride, m.columns, 1})); }

CBLAS_TRANSPOSE cblas(Transpose t) { return t == Transpose::kYes ? CblasTrans : CblasNoTrans; }

// Once per process. Sums would otherwise be cut by the number of threads.
void use_one_thread() {
    static const bool done = (openblas_set_num_threads(1), true);
    static_cast<void>(done);
}

void clear(MatrixView c) {
    for (std::int64_t r = 0; r < c.rows; ++r) std::fill_n(c.row(r), c.columns, 0.0F);
}

}  // namespace

void gemm(Transpose transpose_a, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b, MatrixView c, Store store,
          float scale) {
    const bool ta = transpose_a == Transpose::kYes, tb = transpose_b == Transpose::kYes;
    const std::int64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns;
    SLUICE_CHECK(m == c.rows && k == (tb ? b.columns : b.rows) && c.columns == (tb ? b.rows : b.columns),
                 "the shapes of a GEMM agree");
    if (m == 0 || c.columns == 0) return;
    if (k == 0) {
        if (store == Store::kOverwrite) clear(c);
        return;
    }
    use_one_thread();
    cblas_sgemm(CblasRowMajor, cblas(transpose_a), cblas(transpose_b), extent(m), extent(c.columns), extent(k), scale,
                a.data, leading(a), b.data, leading(b), store == Store::kAdd ? 1.0F : 0.0F, c.data, leading(c));
}

}  // namespace sluice
