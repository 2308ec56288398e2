// The trace of a step that has run, in the format that predictions have.
#pragma once

#include "runtime/step_times.h"
#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

// `provenance` is taken as it is, but for an empty producer, which becomes "cpu runtime". Partners of a message begin
// when the last of them is there (rule 3): before that they waited, as their blockers say. Requires: a step that ended.
Trace measured_trace(const Schedule& schedule, const StepTimes& times, Provenance provenance);

// Of a slice (schedule/slice_rank.h) whose rank ran alone: its partners' ends of messages take the times of its own.
Trace measured_slice_trace(const Schedule& slice, Rank rank, StepTimes times, Provenance provenance);

}  // namespace sluice
