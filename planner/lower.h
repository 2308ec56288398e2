// From a scenario to a schedule: partition, offload amounts, then lowering in passes, each verified.
//
//   fold_step       compute, collectives and transfers of one rank per stage
//   offload_units   activations split, copies listed
//   place_memory    offsets, and the `after` edges that reuse needs
//   unfold_step     every shard and replica
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/folded_step.h"
#include "planner/memory_need.h"
#include "planner/plan.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

struct LowerOptions {
    // Called before each pass with its name. May be empty.
    std::function<void(std::string_view)> progress;
    // Stop once it is known whether the step fits, without verification or estimate; without any placement where
    // memory_floors() exceeds a limit (`memory` then has the floors). A plan that fits may move more than it needs to.
    bool only_fit = false;
};

// A step planned for one rank per stage: what a search compares.
struct PlannedStep {
    Plan plan;
    FoldedStep folded;                 // placed; empty when infeasible
    std::vector<std::string> reasons;  // as in Lowered
    std::vector<MemoryNeed> memory;    // of every stage and node, feasible or not
    Seconds estimate{};                // of the step, by the cost model alone (step_estimate.h)
    bool feasible() const { return reasons.empty(); }
};

// Requires: no choice of the scenario is automatic.
PlannedStep plan_step(const Scenario&, const LowerOptions& = {});

struct Lowered {
    Plan plan;
    Schedule schedule;  // empty when infeasible
    std::vector<std::string>
        reasons;  // why it is infeasible: which kinds exceed which limit, on which rank, at which op
    bool feasible() const { return reasons.empty(); }
};

// plan_step() with its ranks unfolded. Deterministic. The schedule passes verify(): a diagnostic after any pass is a
// bug and throws InternalError.
Lowered lower(const Scenario&, const LowerOptions& = {});

// The same with the offloaded bytes given, by stage and subsequence, instead of the scenario's placement policy. At layer
// granularity they are rounded up to whole tensors, unit by unit, as what a policy decides is.
// Requires: 0 <= offloaded[s][i] <= A_i of stage s.
Lowered lower_with(const Scenario&, const std::vector<std::vector<Bytes>>& offloaded, const LowerOptions& = {});

}  // namespace sluice
