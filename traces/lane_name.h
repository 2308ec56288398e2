#pragma once

#include <string>
#include <string_view>

#include "traces/trace.h"

namespace sluice {

std::string lane_name(const TraceLane& lane);  // "compute", "copy out (D2H)", "send to r5" ...
std::string_view category_of(LaneRole role);   // compute copy_out copy_in collective send receive

}  // namespace sluice
