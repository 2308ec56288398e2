// Learning rate by step: linear warm-up, then half a cosine down to a floor.
#pragma once

#include <cstdint>

namespace sluice {

struct LearningRateSchedule {
    float peak = 0;
    float floor = 0;          // at the end and after it
    std::int64_t warmup = 0;  // steps
    std::int64_t steps = 0;   // in all, >= warmup
};

// For step 1, 2, ...: peak step / warmup up to step = warmup, where it is the peak; from there
// floor + (peak - floor) (1 + cos(pi (step - warmup) / (steps - warmup))) / 2, the floor at step = steps and after it.
float learning_rate(const LearningRateSchedule&, std::int64_t step);

}  // namespace sluice
