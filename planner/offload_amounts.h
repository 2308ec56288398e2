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

// Fills activation (A_i) and window of every stage: the smaller of what goes out while the forward compute of
// subsequence i+1 runs and what comes in while its backward compute runs, at the rates left when all GPUs of the node
// copy.
void fill_windows(const OffloadContext&, std::vector<StagePlan>&);

// Decides `offloaded` of one stage so that at most `limit` bytes live at once. For `adaptive` this is choose_offload();
// the fixed policies ignore the limit.
void decide_offload(const OffloadContext&, std::size_t stage, Bytes limit, StagePlan&);

// What a reader should know when copies of the stage exceed their windows, else "".
std::string exposure_note(const OffloadContext&, std::size_t stage, const StagePlan&);

// Do two stages have the same decision to take? Middle stages of a pipeline do.
bool same_decision(const OffloadContext&, std::size_t a, const StagePlan& plan_a, std::size_t b,
                   const StagePlan& plan_b);

// By unit of the step: the stage plans' amounts spread over units.
std::vector<Bytes> moved_by_unit(const OffloadContext&, const std::vector<StagePlan>&);

}  // namespace sluice
