// A scenario partitioned, split and folded, with its placement still to be decided.
#pragma once

#include <vector>

#include "planner/decide_placement.h"
#include "planner/partition_sequence.h"
#include "planner/split_layers.h"

namespace sluice {

struct UndecidedStep {
    explicit UndecidedStep(const Scenario& scenario)
        : subsequences(partition_sequence(scenario)),
          plans(split_layers(scenario, subsequences)),
          step(fold_step(scenario, subsequences, plans)),
          context(placement_context(scenario, subsequences, plans, step)) {
        fill_windows(context, plans);
    }
    UndecidedStep(const UndecidedStep&) = delete;  // `context` refers to `step`

    std::vector<Subsequence> subsequences;
    std::vector<StagePlan> plans;
    FoldedStep step;
    PlacementContext context;
};

}  // namespace sluice
