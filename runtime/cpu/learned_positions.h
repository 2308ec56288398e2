// Learned position embedding (GPT-2's wpe): row `position` of a table is added to the token at that position. The table
// is whole on every rank, so this runs on a rank's own tokens, after the reduce-scatter of the token embedding.
#pragma once

#include "base/units.h"
#include "runtime/matrix_view.h"

namespace sluice {

// x[t] += table[begin + t]. Requires: the table has the rows [begin, begin + x.rows). No overlap.
void add_learned_positions(Tokens begin, ConstMatrixView table, MatrixView x);

// dtable[begin + t] += dx[t]; dx passes on unchanged to the token embedding.
void learned_positions_backward(Tokens begin, ConstMatrixView dx, MatrixView dtable);

}  // namespace sluice
