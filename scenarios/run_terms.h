// What a whole training run depends on besides its steps: storage, failures, start-up. Block `run` of a scenario;
// docs/scenarios.md has the sources of the defaults.
#pragma once

#include "base/units.h"

namespace sluice {

struct RunTerms {
    BytesPerSecond storage_rate{1e9};      // of checkpoints, per node, reading and writing
    Seconds checkpoint_interval{3600};     // training time between two checkpoints
    Seconds mtbf_per_gpu{50000.0 * 3600};  // mean time between failures that stop the job, of one GPU
    Seconds restart{900};                  // from a failure until the job has its processes again
    Seconds startup{300};                  // of processes and communicators, once
    BytesPerSecond pin_rate{1.5e9};        // where the cluster gives none
};

}  // namespace sluice
