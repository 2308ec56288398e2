#include "runtime/cpu/learned_positions.h"

#include "base/error.h"
#include "runtime/cpu/residual_add.h"

namespace sluice {
namespace {

void check_shapes(Tokens begin, ConstMatrixView table, ConstMatrixView x) {
    SLUICE_CHECK(begin.value >= 0 && begin.value + x.rows <= table.rows && table.columns == x.columns,
                 "the table has a row for every position");
}

}  // namespace

void add_learned_positions(Tokens begin, ConstMatrixView table, MatrixView x) {
    check_shapes(begin, table, x);
    residual_add(x, table.row_range(begin.value, x.rows), x);
}

void learned_positions_backward(Tokens begin, ConstMatrixView dx, MatrixView dtable) {
    check_shapes(begin, dtable, dx);
    const MatrixView rows = dtable.row_range(begin.value, dx.rows);
    residual_add(rows, dx, rows);
}

}  // namespace sluice
