// Closes the loop: what a run measures changes what it does.
//
// After every step the measured share of exposed copies, and of idle copy windows, is held against limits. When one is
// broken for `patience` steps in a row, the scenario's copy and compute rates are replaced by the measured ones, its
// placement is solved again with the same degrees and subsequences, and, where the new plan differs and the cost
// model says that it is faster with these rates, put in place between two steps. Placement changes no bit of the
// mathematics, so losses go on as they would have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "scenarios/scenario.h"
#include "tools/sluice/training_run.h"
#include "traces/trace.h"

namespace sluice {

class Adaptation {
public:
    explicit Adaptation(std::int64_t patience) : patience_(patience) {}

    // What was changed and why, in one line; nothing where nothing was.
    std::optional<std::string> after_step(TrainingRun& run, const StepRecord& record);

private:
    std::int64_t patience_;
    std::int64_t exposed_ = 0, idle_ = 0;  // steps in a row
};

inline constexpr double kExposedLimit = 0.02;  // share of the step

// The scenario with the rates that a trace shows: copies each way by bytes over time, GEMM and attention by measured
// over predicted time of the compute ops.
Scenario with_measured_rates(const Scenario& scenario, const Schedule& schedule, const Trace& measured);

}  // namespace sluice
