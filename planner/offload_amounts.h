// The scenario's placement policy applied to every stage: how many bytes of each subsequence go to the host.
#pragma once

#include <string>
#include <vector>

#include "planner/folded_step.h"
#include "planner/live_model.h"
#include "planner/plan.h"
#include "scenarios/scenario.h"

namespace sluice {

// What an offload decision needs to know about a step, prepared once.
struct OffloadContext {
    const Scenario& scenario;
    const FoldedStep& step;
    std::vector<LiveModel> models;  // by stage
};
OffloadContext offload_context(const Scenario&, const FoldedStep&);

// Fills activation (A_i) and window of every stage: the smaller of what goes out while the forward compute of subsequence
// i+1 runs and what comes in while its backward compute runs, at the rates left when all GPUs of the node copy.
void fill_windows(const OffloadContext&, std::vector<StagePlan>&);

// Decides `offloaded` of one stage so that at most `limit` bytes live at once. For `adaptive` this is choose_offload();
// the fixed policies ignore the limit. Returns a note when copies exceed their windows, else "".
std::string decide_offload(const OffloadContext&, std::size_t stage, Bytes limit, StagePlan&);

// By unit of the step: the stage plans' amounts spread over units.
std::vector<Bytes> moved_by_unit(const OffloadContext&, const std::vector<StagePlan>&);

}  // namespace sluice
