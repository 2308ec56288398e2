// RMSNorm and LayerNorm on rows of bf16, arithmetic in fp32: formulas in runtime/cpu/rms_norm.h and layer_norm.h.
// At most 16384 columns: a row stays in registers.
#pragma once

#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// bias null: RMSNorm.
struct NormWeights {
    const Bf16 *weight = nullptr, *bias = nullptr;  // (hidden)
    float epsilon = 1e-5F;
};

// y (rows, hidden) and statistics (RMSNorm: rows reciprocals; LayerNorm: rows means, then rows reciprocals) are
// overwritten. y may be x itself.
void norm_forward(Stream, ConstBf16Matrix x, const NormWeights&, Bf16Matrix y, float* statistics);

// Likewise, and copy = x in the same pass over memory.
void copy_norm_forward(Stream, ConstBf16Matrix x, Bf16Matrix copy, const NormWeights&, Bf16Matrix y, float* statistics);

// sum = a + b, rounded to bf16, and its norm, in one pass over memory. sum may be a or b.
void residual_norm_forward(Stream, ConstBf16Matrix a, ConstBf16Matrix b, Bf16Matrix sum, const NormWeights&,
                           Bf16Matrix y, float* statistics);

struct NormBackward {
    ConstBf16Matrix dy, x;
    NormWeights weights;
    const float* statistics = nullptr;
    ConstBf16Matrix passed;  // gradient that arrives around the norm; data null for none
};
struct NormGradients {
    float *weight = nullptr, *bias = nullptr;  // (hidden), added to; bias null for RMSNorm
};

// dx = passed + the norm's, overwritten; may be `passed` or `dy` itself. The sums over rows are formed in an order that
// depends on the shape alone.
void norm_backward(Stream, const NormBackward&, Bf16Matrix dx, const NormGradients&, Scratch);

}  // namespace sluice::cuda
