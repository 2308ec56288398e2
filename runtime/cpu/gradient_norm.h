// The norm of all gradients and how far clipping scales them down.
#pragma once

#include <span>

namespace sluice {

// Sum of squares, in double, in an order fixed by the length alone. Exact to 1e-13 or so for any number of parameters.
// Infinity or NaN among the gradients shows in it. Sums of tensors and of ranks are added by the caller in a fixed
// order (and what several ranks hold alike is counted once).
double sum_of_squares(std::span<const float> gradients);

// min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_. Requires: limit > 0. NaN for a NaN norm.
float clipping_scale(double norm, double limit);

}  // namespace sluice
