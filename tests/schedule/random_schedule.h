// Schedules with dense ids and anything else: for round trips, not for running.
#pragma once

#include <cstdint>

#include "schedule/schedule.h"

namespace sluice {

// Same seed, same schedule. Values are drawn to hit defaults, edges and extremes of every field.
Schedule random_schedule(std::uint32_t seed);

}  // namespace sluice
