// The second half of every sum over rows: the partial sums that blocks left in Scratch, added up.
#pragma once

#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// sums[c] += sum over r of partials[r * columns + c], in an order that depends on `rows` alone.
void add_partial_rows(Stream, const float* partials, std::int64_t rows, std::int64_t columns, float* sums);

}  // namespace sluice::cuda
