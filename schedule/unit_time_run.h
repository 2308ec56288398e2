// An idealised run: every op takes one step and starts as early as rules 1-3 allow. For pictures, not for prediction.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace sluice {

inline constexpr std::uint32_t kNeverStarts = 0xffffffffU;

// The step at which each op starts, by position in `ops`; kNeverStarts for ops that wait forever (a cycle, a message
// without its partner). Safe for any schedule: an `after` that names no op is ignored.
std::vector<std::uint32_t> unit_time_run(const Schedule& schedule);

}  // namespace sluice
