// A plain pipeline of any size, for pictures and for measuring: one op per stage and subsequence, no helpers, no
// copies.
#pragma once

#include <cstdint>

#include "schedule/schedule.h"

namespace sluice {

// Rank s runs stage s; all subsequences forward, then backward in reverse. verify() accepts it.
// Requires: stages >= 1, subsequences >= 1.
Schedule pipeline_schedule(std::uint32_t stages, std::uint32_t subsequences);

}  // namespace sluice
