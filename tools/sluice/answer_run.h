// `--tokens`: what a training run of so many tokens costs with a plan.
#pragma once

#include <string>

#include "base/units.h"
#include "models/run_cost.h"
#include "planner/lower.h"
#include "scenarios/scenario.h"

namespace sluice {

struct RunAnswer {
    Tokens tokens{};
    RunStep step;
    RunCost cost;
};

// `scenario` has no open choices; `lowered` is its schedule, `step` its time.
RunAnswer answer_run(const Scenario&, const Lowered&, Seconds step, Tokens tokens);

std::string run_text(const Scenario&, const RunAnswer&);
std::string run_json(const Scenario&, const RunAnswer&);  // an object, to be put into another

}  // namespace sluice
