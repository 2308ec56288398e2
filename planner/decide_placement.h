// The scenario's placement policy applied to every stage: how many bytes of each subsequence go to the host, and how
// many layers are recomputed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/folded_step.h"
#include "planner/live_model.h"
#include "planner/plan.h"
#include "scenarios/scenario.h"

namespace sluice {

// What a placement decision needs to know about a step, prepared once.
struct PlacementContext {
    const Scenario& scenario;
    const FoldedStep& step;         // nothing recomputed
    std::vector<LiveModel> models;  // by stage
    // Compute time by stage and slot, one sequence's: forward, backward without recomputing, and what
    // recomputing one layer adds: its kernels, and gathers that the backward pass otherwise hides.
    struct Times {
        std::vector<Seconds> forward, backward, recompute_kernels, recompute;
    };
    std::vector<Times> times;
};
PlacementContext placement_context(const Scenario&, const std::vector<Subsequence>&, const std::vector<StagePlan>&,
                                   const FoldedStep& step);

// Fills activation (A_i) and window of every stage: the smaller of what goes out while the forward compute of
// subsequence i+1 runs and what comes in while its backward compute, recomputing included, runs, at the rates left when
// all GPUs of the node copy.
void fill_windows(const PlacementContext&, std::vector<StagePlan>&);

// An equal share of the node's host memory for every GPU.
Bytes host_share(const Scenario&);

// Decides `offloaded` and `recomputed` of one stage so that at most `device` bytes live at once, the page tables of
// what is moved among them, and, for `three-way`, at most `host` bytes are moved. For `adaptive` this is
// choose_offload(), for `three-way` choose_three_way(); the fixed policies ignore the limits.
struct PlacementLimits {
    Bytes device{}, host{};
};
enum class PlacementGoal : std::uint8_t {
    kFastest,
    kFit,  // whatever fits will do: found sooner, and where little is left, where kFastest finds nothing
};
void decide_placement(const PlacementContext&, std::size_t stage, PlacementLimits, PlacementGoal, StagePlan&);

// What a reader should know: copies that exceed their windows, layers that are recomputed; one line for stages in a row
// of which the same can be said. May be empty.
std::vector<std::string> placement_notes(const PlacementContext&, const std::vector<StagePlan>&);

// Do two stages have the same decision to take? Middle stages of a pipeline do.
bool same_decision(const PlacementContext&, std::size_t a, const StagePlan& plan_a, std::size_t b,
                   const StagePlan& plan_b);

// By unit of the step: the stage plans' amounts spread over units.
std::vector<Bytes> moved_by_unit(const PlacementContext&, const std::vector<StagePlan>&);

}  // namespace sluice
