// How long a folded step takes by the cost model alone: the longest path over lane order, `after` and matches, every op
// as long as it would take with all its peers busy. No simulator, milliseconds per candidate: what a search can afford.
//
// Left out, and therefore what a replay adds: links shared unequally, transfers that meet copies on a GPU's PCIe link,
// compute slowed by collectives beside it. And what it takes off: the gains of GPUs that wait (power_limit).
#pragma once

#include <vector>

#include "planner/folded_step.h"
#include "scenarios/scenario.h"

namespace sluice {

struct StepEstimate {
    Seconds step{};
    std::vector<Seconds> compute;  // by stage: time its compute lane works
};

// Requires: the ranks' issue orders can be executed one op after another with rendezvous, as fold_step() lists them.
StepEstimate estimate_step(const FoldedStep&, const Scenario&);

// What one op takes alone. Copies go at the rate left when all GPUs of the node copy; transfers between stages over
// NVLink inside a node, over the rank's share of its adapter across nodes.
Seconds op_time(const Op&, const FoldedStep&, const Scenario&);

}  // namespace sluice
