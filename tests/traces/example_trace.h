// One small trace with everything in it, for goldens and as a fuzzing seed. docs/traces.md works it out by hand.
#pragma once

#include "traces/trace.h"

namespace sluice {

Trace example_trace();

}  // namespace sluice
