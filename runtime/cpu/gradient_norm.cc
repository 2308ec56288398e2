#include "runtime/cpu/gradient_norm.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/cpu/lane_sum.h"

namespace sluice {

double sum_of_squares(std::span<const float> gradients) {
    const float* g = gradients.data();
    return lane_sum<double>(static_cast<std::int64_t>(gradients.size()), [g](std::int64_t i) {
        const auto value = static_cast<double>(g[i]);
        return value * value;
    });
}

float clipping_scale(double norm, double limit) {
    SLUICE_CHECK(limit > 0, "the limit of the gradient norm is above 0");
    return static_cast<float>(std::min(limit / (norm + 1e-6), 1.0));
}

}  // namespace sluice
