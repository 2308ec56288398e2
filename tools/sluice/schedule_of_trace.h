// Private to the command: the schedule that a trace is of.
#pragma once

#include <optional>
#include <string>

#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

// What traces call the schedule.
std::string schedule_fingerprint(const Schedule& schedule);

// Reads the schedule at `path`; nothing for an empty path. Throws InputError when it is not that of the trace.
std::optional<Schedule> read_schedule_of(const std::string& path, const Trace& trace, const std::string& trace_path);

}  // namespace sluice
