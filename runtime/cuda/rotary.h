// Rotary position embedding in the half-rotation form: runtime/cpu/rotary_table.h. Angles are formed in double from the
// position and reduced before the sine is taken, so they are as exact at position 10^6 as at 1; there is no table.
// rotary_dim is at most 512.
#pragma once

#include "base/units.h"
#include "runtime/cpu/rotary_table.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// Turns x in place: row i is position begin + i; columns are heads * head_dim, [head][head_dim].
void rotate(Stream, const RotaryShape&, Tokens begin, RotationSense, Bf16Matrix x);

// out = x + added in fp32, rounded to bf16 once; the first `rotated_columns` columns (whole heads; 0: none) are turned
// before. x: data null for none.
void rotate_and_round(Stream, const RotaryShape&, Tokens begin, RotationSense, std::int64_t rotated_columns,
                      ConstFp32Matrix x, ConstBf16Matrix added, Bf16Matrix out);
void rotate_and_round(Stream, const RotaryShape&, Tokens begin, RotationSense, std::int64_t rotated_columns,
                      ConstBf16Matrix x, ConstBf16Matrix added, Bf16Matrix out);

}  // namespace sluice::cuda
