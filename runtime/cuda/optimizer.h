// AdamW on fp32 master weights, and the norm of the gradients: runtime/cpu/adamw.h, gradient_norm.h.
#pragma once

#include "runtime/cpu/adamw.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// *sum += sum of squares in double, in an order that depends on the count alone.
void sum_of_squares(Stream, const float* values, std::int64_t count, double* sum, Scratch);

struct AdamwParameters {
    const float* gradients = nullptr;
    float *master = nullptr, *first_moment = nullptr, *second_moment = nullptr;
    Bf16* weights = nullptr;  // the master's, rounded
    std::int64_t count = 0;
};

// One step as of runtime/cpu/adamw.h. The scale of the gradients is found on the device: clipping_scale(sqrt(
// *squares), clip), 1 for clip 0, times step.gradient_scale. Where *squares is not finite nothing is changed.
void adamw(Stream, const AdamwStep&, double clip, const double* squares, const AdamwParameters&);

}  // namespace sluice::cuda
