// One rank of a planned run, to be run alone: `sluice slice` writes it, `sluice run --rank-slice` runs it.
#pragma once

#include <string>

#include "base/ids.h"
#include "runtime/stand_in.h"
#include "tools/sluice/training_run.h"
#include "traces/trace.h"

namespace sluice {

// One of so many ranks. Throws InputError for other text. `what` names who asks: "sluice slice: --rank".
Rank read_rank(const std::string& text, std::size_t ranks, const char* what);

struct SlicedRun {
    PlannedRun planned;  // its schedule is the slice
    Trace predicted;     // of the slice's ops, in the step of all ranks
};
// Replays the whole step for the prediction. Forks: not while a run has threads.
SlicedRun slice_run(PlannedRun whole, Rank rank);

// The slice of the rank in a file that `sluice slice` wrote, for a scenario without open choices. Its plan has no
// candidates and no folded step. Throws InputError when it is not of this rank or breaks a rule.
PlannedRun read_slice(const Scenario& scenario, const std::string& path, Rank rank);

// From a trace that `sluice slice --predicted` wrote. Throws InputError when it is of another schedule.
StandIns read_stand_ins(const std::string& path, const PlannedRun& slice);

}  // namespace sluice
