// Rotary position embedding (Su et al. 2021) in the half-rotation form of Hugging Face's Llama and NeoX: of the first
// `rotary_dim` values of a head, value j is paired with value j + rotary_dim / 2, and the pair of the token at position
// p is turned by the angle p * theta^(-2 j / rotary_dim):
//
//   y[j] = x[j] cos - x[j + half] sin,   y[j + half] = x[j + half] cos + x[j] sin
//
// Positions are those in the whole sequence, so every subsequence passes its own first position (a slice that restarts
// at 0 was a published bug, InternEvo PR 316). Angles are computed in double: Hugging Face computes them in fp32, where
// the angle of position 10^6 is off by up to 0.03 radian; below 10^4 the two agree to 1e-3.
#pragma once

#include <span>

#include "base/units.h"
#include "runtime/matrix_view.h"

namespace sluice {

struct RotaryShape {
    std::int64_t head_dim = 0;
    std::int64_t rotary_dim = 0;  // even, <= head_dim; Llama: head_dim; NeoX: rotary_pct * head_dim. The rest passes
    double theta = 10000;
};

// Bytes of the table of `length` positions: cos and sin of every pair, (length, 2, rotary_dim / 2).
Bytes rotary_table_bytes(const RotaryShape&, Tokens length);

// Fills table for positions [begin, begin + length); a table of the whole sequence may be filled once and sliced. The
// bits of a position do not depend on begin. Requires: table has exactly rotary_table_bytes.
void fill_rotary_table(const RotaryShape&, Tokens begin, Tokens length, std::span<float> table);

enum class RotationSense : std::uint8_t {
    kForward,
    kBackward,  // by the opposite angle: the gradient, since a rotation's transpose is its inverse
};

// Turns x in place: rows are tokens, the rows of the table; columns are heads * head_dim, [head][head_dim].
void rotate(const RotaryShape&, std::span<const float> table, RotationSense, MatrixView x);

}  // namespace sluice
