// Sums and copies of rows.
#pragma once

#include "base/units.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// sum = a + b, rounded to bf16. sum may be a or b.
void residual_add(Stream, ConstBf16Matrix a, ConstBf16Matrix b, Bf16Matrix sum);

// Row by row: x += bias (columns of x).
void add_bias(Stream, const Bf16* bias, Bf16Matrix x);
// dbias += sum over rows of dy, in an order that depends on the shape alone.
void bias_backward(Stream, ConstBf16Matrix dy, float* dbias, Scratch);

// sum = values (begins) or sum += values, fp32.
void accumulate(Stream, ConstBf16Matrix values, Fp32Matrix sum, bool begins);

// Learned positions: row i of x is position begin + i of the table; backward adds to fp32 gradients.
void add_learned_positions(Stream, Tokens begin, ConstBf16Matrix table, Bf16Matrix x);
void learned_positions_backward(Stream, Tokens begin, ConstBf16Matrix dy, Fp32Matrix dtable);

// values -> bf16, to the nearest.
void round_to_bf16(Stream, const float* values, Bf16* out, std::int64_t count);

// Adds 1 to *count for every value that is not finite.
void count_non_finite(Stream, const Bf16* values, std::int64_t values_count, unsigned long long* count);
void count_non_finite(Stream, const float* values, std::int64_t values_count, unsigned long long* count);

}  // namespace sluice::cuda
