#include "runtime/cpu/adamw.h"

#include <cmath>

#include "base/error.h"

namespace sluice {
namespace {

// 1 - beta^step, without the cancellation of beta near 1.
double correction(float beta, std::int64_t step) {
    return -std::expm1(static_cast<double>(step) * std::log(static_cast<double>(beta)));
}

}  // namespace

AdamwFactors adamw_factors(const AdamwStep& s) {
    return {static_cast<float>(s.learning_rate / correction(s.beta1, s.step)),
            static_cast<float>(1.0 / std::sqrt(correction(s.beta2, s.step))),
            static_cast<float>(1.0 - static_cast<double>(s.learning_rate) * s.weight_decay)};
}

void adamw(const AdamwStep& s, std::span<const float> gradients, const AdamwState& state) {
    SLUICE_CHECK(gradients.size() == state.weights.size() && gradients.size() == state.first_moment.size() &&
                     gradients.size() == state.second_moment.size() && s.step >= 1,
                 "every parameter has a gradient and two moments, and steps count from 1");
    const auto [size, spread, kept] = adamw_factors(s);
    const float beta1 = s.beta1, beta2 = s.beta2, rest1 = 1.0F - beta1, rest2 = 1.0F - beta2;
    const float epsilon = s.epsilon, scale = s.gradient_scale;
    const auto count = static_cast<std::int64_t>(gradients.size());
    const float* gradient = gradients.data();
    float *w = state.weights.data(), *m = state.first_moment.data(), *v = state.second_moment.data();
    for (std::int64_t i = 0; i < count; ++i) {
        const float g = scale * gradient[i];
        m[i] = beta1 * m[i] + rest1 * g;
        v[i] = beta2 * v[i] + rest2 * (g * g);
        w[i] = w[i] * kept - size * m[i] / (std::sqrt(v[i]) * spread + epsilon);
    }
}

}  // namespace sluice
