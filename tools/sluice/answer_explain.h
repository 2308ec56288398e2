// `sluice explain SCENARIO`: what bounds the step, and what 10% more of each resource would buy.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "planner/lower.h"
#include "planner/scaled.h"
#include "scenarios/scenario.h"
#include "tools/sluice/progress_line.h"
#include "traces/step_summary.h"

namespace sluice {

inline constexpr double kMoreOfAResource = 1.1;

struct ResourceGain {
    Resource resource{};
    Seconds step{};        // the faster of the two, replayed: never slower than the same plan with more of the resource
    Seconds same_plan{};   // the plan of the scenario as it is, replayed with more of the resource
    Seconds re_planned{};  // every open choice and the placement made again, replayed
    std::string change;    // what the re-planned step does differently, "" where it is not the faster one
};

// Where the time of a mean compute lane goes; sums to the step.
struct StepPart {
    std::string name;
    Seconds time{};
};

struct Explanation {
    Scenario scenario;  // with its choices made
    Lowered lowered;
    std::vector<std::string> refusals;  // why nothing fits; then nothing else is filled in
    StepSummary summary;
    std::vector<StepPart> parts;  // largest first
    std::vector<ResourceGain> gains;
};

// Replays the plan, then for every resource that plan and a new one with kMoreOfAResource times as much of it.
Explanation explain_step(const Scenario&, ProgressLine&);

std::vector<StepPart> step_parts(const StepSummary&);
std::string explanation_text(const Explanation&);
std::string explanation_json(const Explanation&);  // an object

}  // namespace sluice
