#include "runtime/cpu/learning_rate.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace sluice {

float learning_rate(const LearningRateSchedule& s, std::int64_t step) {
    SLUICE_CHECK(step >= 1 && s.warmup >= 0 && s.steps >= s.warmup, "steps count from 1 and warm-up ends before them");
    const double peak = s.peak, low = s.floor;
    if (step <= s.warmup) return static_cast<float>(peak * static_cast<double>(step) / static_cast<double>(s.warmup));
    if (step >= s.steps) return s.floor;
    const double done = static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup);
    return static_cast<float>(low + (peak - low) * 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace sluice
