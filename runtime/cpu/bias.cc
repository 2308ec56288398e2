#include "runtime/cpu/bias.h"

#include "base/error.h"
#include "runtime/cpu/column_sums.h"

namespace sluice {

void add_bias(std::span<const float> bias, MatrixView y) {
    SLUICE_CHECK(std::ssize(bias) == y.columns, "a bias has one value per column");
    for (std::int64_t t = 0; t < y.rows; ++t) {
        float* row = y.row(t);
        const float* b = bias.data();
        for (std::int64_t c = 0; c < y.columns; ++c) row[c] += b[c];
    }
}

void bias_backward(ConstMatrixView dy, std::span<float> dbias) {
    SLUICE_CHECK(std::ssize(dbias) == dy.columns, "a bias has one value per column");
    add_column_sums(dy.rows, dbias, [dy](std::int64_t t, std::int64_t c) { return dy.row(t)[c]; });
}

}  // namespace sluice
