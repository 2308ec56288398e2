// What a measured step says about rates, and a scenario that has them.
#pragma once

#include <span>

#include "base/units.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

// 0: the step has nothing to tell it by.
struct StepRates {
    BytesPerSecond out{}, in{};  // of a rank's copies while the others copy, too, the latency of each taken off
    double compute = 0;          // time of all compute ops / what the calibration says
};

// Requires: the trace is of the schedule, the calibration the one that the schedule was planned with.
StepRates step_rates(const Scenario&, const Schedule&, const Trace& measured);

// Each rate's median over the steps that have it: one step that the system disturbed does not count.
StepRates median_rates(std::span<const StepRates>);

// The scenario with these rates in place of the cluster's copies and the calibration's compute; what is 0 stays.
// A measured rate has everything in it that copies share, and a measured op what slows it down, so links are as wide as
// the rates need and interference is none.
Scenario with_rates(Scenario, const StepRates&);

}  // namespace sluice
