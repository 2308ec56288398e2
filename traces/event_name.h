// What viewers call an op: "forward 2 layer 3", "offload 0 layer 3", "optimizer", "send 1". The Perfetto export and
// NVTX ranges have the same names.
#pragma once

#include <string>
#include <string_view>

#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

// `label`: the phase's name.
std::string event_name(const TraceEvent& event, LaneRole role, std::string_view label);
std::string event_name(const Op& op);

}  // namespace sluice
