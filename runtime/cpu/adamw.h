// AdamW (Loshchilov and Hutter 2019): Adam with the decay of weights decoupled from the gradient, bias-corrected, as
// torch.optim.AdamW.
#pragma once

#include <cstdint>
#include <span>

namespace sluice {

struct AdamwStep {
    float learning_rate = 0;
    float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
    float weight_decay = 0.1F;  // 0 for norms and biases, by custom
    float gradient_scale = 1;   // what clipping leaves of the gradients: gradient_norm.h
    std::int64_t step = 1;      // counted from 1
};

struct AdamwState {
    std::span<float> weights, first_moment, second_moment;  // moments start at 0
};

// One step on all parameters given; gradients are only read. No overlap. Elementwise: any cut of the parameters into
// calls gives the same bits.
//
//   g = gradient_scale gradient,   m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
//   w = w (1 - learning_rate weight_decay) - learning_rate (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) +
//   epsilon)
void adamw(const AdamwStep&, std::span<const float> gradients, const AdamwState& state);

// What of the formula is the same for all parameters of a step.
struct AdamwFactors {
    float size = 0;    // learning_rate / (1 - beta1^step)
    float spread = 0;  // 1 / sqrt(1 - beta2^step)
    float kept = 0;    // 1 - learning_rate weight_decay
};
AdamwFactors adamw_factors(const AdamwStep&);

}  // namespace sluice
