// What a planned run is foretold to do, op by op.
#pragma once

#include "tools/sluice/training_run.h"
#include "traces/trace.h"

namespace sluice {

// A replay, with the provenance of what runs, so that `sluice compare` joins it with the measured trace. Forks: not
// while a run has threads.
Trace predicted_trace(const PlannedRun&);

}  // namespace sluice
