#pragma once

#include "traces/trace.h"

namespace sluice {

// The event of an op, or nullptr. Constant time when the trace has an event for every op, else logarithmic.
const TraceEvent* find_event(const Trace& trace, OpId op);

}  // namespace sluice
