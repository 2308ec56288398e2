// What the command prints of plans and predictions, as text and as JSON (docs/command.md is the contract of the keys).
#pragma once

#include <string>

#include "models/pinned_memory.h"
#include "planner/lower.h"
#include "scenarios/scenario.h"
#include "sim/simulate.h"
#include "traces/step_summary.h"

namespace sluice {

struct WallSeconds {
    double lower = 0, verify = 0, replay = 0;
};

// The plan of a scenario: degrees, lengths, offloaded fractions, and why it does not fit where it does not.
std::string plan_json(const Scenario&, const Lowered&);
std::string infeasible_text(const Scenario&, const Lowered&);

struct Prediction {
    const Scenario& scenario;
    const Lowered& lowered;
    const Simulation* simulation = nullptr;  // nullptr: infeasible
    StepSummary summary{};
    PinnedMemory pinned{};
    WallSeconds wall{};
};

// The machine-readable summary. Keys that an infeasible scenario has no answer for are null.
std::string prediction_json(const Prediction&);
std::string prediction_text(const Prediction&);

// A trace's own summary, whoever made it.
std::string trace_json(const Trace&, const StepSummary&);
std::string trace_text(const Trace&, const StepSummary&);

}  // namespace sluice
