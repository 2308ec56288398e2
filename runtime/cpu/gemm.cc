#include "runtime/cpu/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <string_view>

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

// Once per process. Sums would otherwise be cut by the number of threads. The serial build of OpenBLAS hands one buffer
// to several callers: products of threads that call at the same time are then wrong, now and then, without any sign.
void prepare_openblas() {
    static const bool done = [] {
        const std::string_view build = openblas_get_config();
        if (build.find("SINGLE_THREADED") != std::string_view::npos)
            throw EnvironmentError(
                "OpenBLAS on this machine is its serial build, which gives wrong products when several threads call it; "
                "install the one with threads (Debian: libopenblas-pthread-dev)");
        openblas_set_num_threads(1);
        return true;
    }();
    static_cast<void>(done);
}

void clear(MatrixView c) {
    for (std::int64_t r = 0; r < c.rows; ++r) std::fill_n(c.row(r), c.columns, 0.0F);
}

// Some kernels of OpenBLAS (0.3.21, those for AVX-512) add up offsets within an operand in 32 bits and crash beyond. A
// call therefore spans at most 2 GiB of any operand; larger products are cut along rows.
std::int64_t rows_per_call(ConstMatrixView m) {
    constexpr std::int64_t kReach = (std::int64_t{1} << 29) - 1;
    return std::max<std::int64_t>(1, kReach / std::max<std::int64_t>(1, m.stride));
}

// Rows [row, row + rows) and columns [column, column + columns) of op(m).
ConstMatrixView block(ConstMatrixView m, Transpose t, std::int64_t row, std::int64_t rows, std::int64_t column,
                      std::int64_t columns) {
    if (t == Transpose::kYes) return m.row_range(column, columns).column_range(row, rows);
    return m.row_range(row, rows).column_range(column, columns);
}

struct Product {
    Transpose transpose_a, transpose_b;
    float scale;
};

void call(const Product& p, ConstMatrixView a, ConstMatrixView b, MatrixView c, std::int64_t k, Store store) {
    prepare_openblas();
    cblas_sgemm(CblasRowMajor, cblas(p.transpose_a), cblas(p.transpose_b), extent(c.rows), extent(c.columns), extent(k),
                p.scale, a.data, leading(a), b.data, leading(b), store == Store::kAdd ? 1.0F : 0.0F, c.data,
                leading(c));
}

}  // namespace

std::string blas_description() {
    const std::string build = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    const std::size_t name_end = build.find(' ');
    const std::size_t version_end = name_end == std::string::npos ? name_end : build.find(' ', name_end + 1);
    return build.substr(0, version_end) + ", " + openblas_get_corename() + " kernels";
}

void gemm(Transpose transpose_a, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b, MatrixView c, Store store,
          float scale) {
    const bool ta = transpose_a == Transpose::kYes, tb = transpose_b == Transpose::kYes;
    const std::int64_t m = ta ? a.columns : a.rows, k = ta ? a.rows : a.columns, n = c.columns;
    SLUICE_CHECK(m == c.rows && k == (tb ? b.columns : b.rows) && n == (tb ? b.rows : b.columns),
                 "the shapes of a GEMM agree");
    if (k == 0 && store == Store::kOverwrite) clear(c);
    const std::int64_t m_step = std::min(rows_per_call(c), ta ? m : rows_per_call(a));
    const std::int64_t n_step = tb ? rows_per_call(b) : n;
    const std::int64_t k_step = std::min(ta ? rows_per_call(a) : k, tb ? k : rows_per_call(b));
    const Product product{transpose_a, transpose_b, scale};
    for (std::int64_t i = 0; i < m; i += m_step)
        for (std::int64_t j = 0; j < n; j += n_step)
            for (std::int64_t l = 0; l < k; l += k_step) {
                const std::int64_t rows = std::min(m_step, m - i), columns = std::min(n_step, n - j);
                const std::int64_t depth = std::min(k_step, k - l);
                call(product, block(a, transpose_a, i, rows, l, depth), block(b, transpose_b, l, depth, j, columns),
                     c.row_range(i, rows).column_range(j, columns), depth, l == 0 ? store : Store::kAdd);
            }
}

}  // namespace sluice
