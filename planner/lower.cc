#include "planner/lower.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "planner/capacity_report.h"
#include "planner/offload_amounts.h"
#include "planner/offload_units.h"
#include "planner/partition_sequence.h"
#include "planner/unfold_step.h"
#include "schedule/place_memory.h"
#include "schedule/verify.h"

namespace sluice {
namespace {

// Rounds in which a stage's limit is lowered by what placement loses between buffers.
constexpr int kPlacementRounds = 8;

void expect_valid(const Schedule& schedule, std::string_view pass) {
    const Diagnostics diagnostics = verify(schedule);
    if (diagnostics.empty()) return;
    throw InternalError(fmt::format("pass {} made an invalid schedule: {}: {} (and {} more)", pass,
                                    diagnostics.front().rule, diagnostics.front().message, diagnostics.size() - 1));
}

struct Placed {
    OffloadedStep offloaded;
    Placement placement;
};

Placed place(const OffloadContext& context, const Plan& plan) {
    Placed placed{offload_units(context.step, moved_by_unit(context, plan.stages)), {}};
    placed.placement = place_memory(placed.offloaded.step.schedule);
    return placed;
}

// Adaptive amounts answer to live bytes; the arena may be larger. Lowers the limit of the stages where it is, until all
// fit or the amounts no longer change.
Placed decide_and_place(const OffloadContext& context, Plan& plan) {
    const Bytes usable = context.scenario.cluster.gpu.usable();
    std::vector<Bytes> limit(plan.stages.size(), usable);
    std::vector<std::string> notes(plan.stages.size());
    for (std::size_t s = 0; s < plan.stages.size(); ++s) notes[s] = decide_offload(context, s, usable, plan.stages[s]);
    Placed placed = place(context, plan);
    for (int round = 0; round < kPlacementRounds; ++round) {
        bool changed = false;
        for (std::size_t s = 0; s < plan.stages.size(); ++s) {
            const Bytes excess = placed.placement.device[s].arena - usable;
            if (excess.value <= 0) continue;
            limit[s] -= excess;
            const std::vector<Bytes> before = plan.stages[s].offloaded;
            notes[s] = decide_offload(context, s, limit[s], plan.stages[s]);
            changed |= plan.stages[s].offloaded != before;
        }
        if (!changed) break;
        placed = place(context, plan);
    }
    for (std::string& note : notes)
        if (!note.empty()) plan.notes.push_back(std::move(note));
    return placed;
}

Lowered lower_by(const Scenario& scenario, const std::vector<std::vector<Bytes>>* given, const LowerOptions& options) {
    const auto begin_pass = [&](std::string_view pass) {
        if (options.progress) options.progress(pass);
    };
    Lowered result;
    Plan& plan = result.plan;
    begin_pass("partition");
    plan.subsequences = partition_sequence(scenario);
    plan.stages = split_layers(scenario.model.layers, scenario.policy.pp);

    begin_pass("fold");
    const FoldedStep step = fold_step(scenario, plan.subsequences, plan.stages);
    expect_valid(step.schedule, "fold");

    begin_pass("offload and placement");
    const OffloadContext context = offload_context(scenario, step);
    fill_windows(context, plan.stages);
    Placed placed;
    if (given != nullptr) {
        for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].offloaded = (*given)[s];
        placed = place(context, plan);
    } else {
        placed = decide_and_place(context, plan);
    }
    FoldedStep& folded = placed.offloaded.step;
    result.reasons = capacity_report(scenario, folded.schedule, placed.placement);
    if (!result.feasible()) return result;
    expect_valid(folded.schedule, "placement");

    begin_pass("unfold");
    result.schedule = unfold_step(folded, scenario);
    return result;
}

}  // namespace

Lowered lower(const Scenario& scenario, const LowerOptions& options) { return lower_by(scenario, nullptr, options); }

Lowered lower_with(const Scenario& scenario, const std::vector<std::vector<Bytes>>& offloaded,
                   const LowerOptions& options) {
    return lower_by(scenario, &offloaded, options);
}

}  // namespace sluice
