// When the ops of one step and their kernels began and ended, written by the lanes while they run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

struct OpTimes {
    std::int64_t begin = 0, end = 0;  // steady_now()
};

// Made once, overwritten by every step. Each entry is written by the lane of its op alone, and read when the step is
// over.
struct StepTimes {
    std::int64_t begin = 0;                // of the step
    std::vector<OpTimes> ops;              // by op
    std::vector<std::uint32_t> first_lap;  // by op, one more at the end: index into laps
    std::vector<std::int64_t> laps;        // ends of kernels

    explicit StepTimes(const Schedule& schedule);
    std::span<std::int64_t> laps_of(OpId op);
    std::span<const std::int64_t> laps_of(OpId op) const;
};

}  // namespace sluice
