#include "planner/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "models/device_memory.h"
#include "models/pinned_memory.h"
#include "planner/capacity_report.h"
#include "planner/decide_placement.h"
#include "planner/memory_floors.h"
#include "planner/offload_units.h"
#include "planner/partition_sequence.h"
#include "planner/split_layers.h"
#include "planner/step_estimate.h"
#include "planner/unfold_step.h"
#include "planner/whole_tensors.h"
#include "schedule/place_memory.h"
#include "schedule/verify.h"

namespace sluice {
namespace {

constexpr int kPlacementRounds = 10;

void expect_valid(const Schedule& schedule, std::string_view pass) {
    const Diagnostics diagnostics = verify(schedule);
    if (diagnostics.empty()) return;
    throw InternalError(fmt::format("pass {} made an invalid schedule: {}: {} (and {} more)", pass,
                                    diagnostics.front().rule, diagnostics.front().message, diagnostics.size() - 1));
}

// Ops of a lowered step, at most: per subsequence a rank lists up to 22 per row (a layer, or at stage granularity its
// stage), 3 more where the row is recomputed (7 where it is as a whole) or replicas share, and 14 around them. Replicas
// share the batch.
std::string too_many_ops(const Scenario& s) {
    constexpr double kMostOps = 1 << 24;
    const Policy& p = s.policy;
    const auto rows = static_cast<double>(p.granularity == Granularity::kLayer ? s.model.layers : p.pp);
    const bool replicas = p.dp > 1;
    const double again = s.recomputes_layers()                                                ? 7
                         : s.policy.may_recompute() || s.policy.inventory == Inventory::kLean ? 3
                                                                                              : 0;
    const double of_row = 22 + again + (replicas ? 3 : 0), of_stage = replicas ? 18 : 14;
    const double ops = (of_row * rows + of_stage * static_cast<double>(p.pp)) * static_cast<double>(p.n) *
                       static_cast<double>(s.batch) * static_cast<double>(p.sp);
    if (ops <= kMostOps) return {};
    return fmt::format(
        "the schedule would have up to {:.0f} million ops, more than the {:.0f} million that are handled; use "
        "fewer subsequences{}",
        ops / 1e6, kMostOps / 1e6, p.granularity == Granularity::kLayer ? " or granularity stage" : "");
}

bool recomputes(const Plan& plan) {
    return std::any_of(plan.stages.begin(), plan.stages.end(), [](const StagePlan& s) { return s.recomputes(); });
}

struct Placed {
    OffloadedStep offloaded;
    Placement placement;
};

// How amounts become whole tensors where units name theirs.
enum class Rounding : std::uint8_t {
    kUp,       // of every unit by itself
    kCarried,  // up, less what the units before it moved beyond theirs: after every unit at least as much has been
               // moved as was decided, and in all at most a tensor more
};

OffloadedStep offload_whole_tensors(const FoldedStep& step, std::vector<Bytes> moved, Rounding rounding) {
    std::map<std::pair<std::size_t, std::int32_t>, Bytes> ahead;  // by stage and sequence
    for (std::size_t u = 0; u < moved.size(); ++u) {
        const Unit& unit = step.units[u];
        const std::vector<SavedTensor>& tensors = step.schedule.buffers[index(unit.buffer)].tensors;
        if (tensors.empty()) continue;
        Bytes& beyond = ahead[{unit.stage, unit.sequence}];
        const Bytes decided = moved[u];
        moved[u] = whole_tensors(tensors, std::max(0_B, decided - beyond));
        if (rounding == Rounding::kCarried) beyond += moved[u] - decided;
    }
    return offload_units(step, moved);
}

Placed place(const PlacementContext& context, const Plan& plan, Rounding rounding) {
    const std::vector<Bytes> moved = moved_by_unit(context, plan.stages);
    Placed placed{recomputes(plan) ? offload_whole_tensors(fold_step(context.scenario, plan.subsequences, plan.stages),
                                                           moved, rounding)
                                   : offload_whole_tensors(context.step, moved, rounding),
                  {}};
    placed.placement = place_memory(placed.offloaded.step.schedule);
    return placed;
}

// Amounts answer to live bytes, but the arena may be larger: placement can lose some bytes between buffers. Likewise
// what is moved is rounded up to whole tensors. This looks for the largest limit on a stage's live (or moved) bytes at
// which its arena (or its pinned memory) fits: down in doubling steps, then halving. The page tables of what is pinned
// count on both sides, as live and as part of the arena.
class LimitSearch {
public:
    explicit LimitSearch(Bytes usable) : usable_(usable), limit_(usable), exceeds_(usable) {}

    Bytes limit() const { return limit_; }

    // Takes the arena that the limit led to; true when another limit is worth trying.
    bool next(Bytes arena) {
        if (arena > usable_) {
            exceeds_ = limit_;
            step_ = std::max(step_ * 2, arena - usable_);
            limit_ = fits_ ? middle() : limit_ - step_;
            return true;
        }
        fits_ = limit_;
        if (exceeds_ - limit_ <= kTolerance) return false;  // at once when the whole limit fits
        limit_ = middle();
        return true;
    }

    // Back to the last limit that fits; true when that changes it.
    bool settle() { return fits_ && std::exchange(limit_, *fits_) != *fits_; }

private:
    static constexpr Bytes kTolerance = 16_MiB;
    Bytes middle() const { return *fits_ + Bytes{(exceeds_ - *fits_).value / 2}; }

    Bytes usable_, limit_, exceeds_, step_{};
    std::optional<Bytes> fits_;
};

bool exceeds(const MemoryNeed& need) { return need.excess() > 0_B; }

std::vector<MemoryNeed> needs_of(const Scenario& scenario, const Placed& placed) {
    return memory_needs(scenario, placed.placement.device,
                        pinned_bytes(placed.offloaded.step.schedule, scenario.cluster.host.allocator));
}

bool fits(const Scenario& scenario, const Placed& placed) {
    const std::vector<MemoryNeed> needs = needs_of(scenario, placed);
    return std::none_of(needs.begin(), needs.end(), exceeds);
}

// The two searches differ by what packing and whole tensors lose, a few percent.
bool just_fails(const std::vector<MemoryNeed>& needs) {
    constexpr double kMostLost = 0.1;
    double worst = 0;
    for (const MemoryNeed& need : needs) worst = std::max(worst, need.excess() / need.usable);
    return worst > 0 && worst < kMostLost;
}

// Is it known whether the step fits? It does when everything fits. An adaptive one does not when a host is too small
// for the first amounts, the fewest bytes that live bytes allow: lower limits only move more.
bool fit_is_known(const PlacementContext& context, const Placed& placed, bool first) {
    const std::vector<MemoryNeed> needs = needs_of(context.scenario, placed);
    const bool host_exceeds = std::any_of(
        needs.begin(), needs.end(), [](const MemoryNeed& need) { return need.space == Space::kHost && exceeds(need); });
    const bool fewest = first && std::holds_alternative<AdaptiveOffload>(context.scenario.policy.placement);
    return (fewest && host_exceeds) || std::none_of(needs.begin(), needs.end(), exceeds);
}

// kFit: stop as soon as it is known whether the step fits; what fits may then move more than it needs to.
Placed decide_and_place(const PlacementContext& context, Plan& plan, PlacementGoal goal, Rounding rounding) {
    const std::size_t stages = plan.stages.size();
    std::vector<LimitSearch> searches(stages, LimitSearch(usable_device_memory(context.scenario, Bytes{})));
    std::vector<LimitSearch> hosts(stages, LimitSearch(host_share(context.scenario)));
    const bool limits_host = std::holds_alternative<ThreeWay>(context.scenario.policy.placement);
    const auto decide = [&](std::size_t s) {
        StagePlan& stage = plan.stages[s];
        const StagePlan before = stage;
        if (s > 0 && searches[s].limit() == searches[s - 1].limit() && hosts[s].limit() == hosts[s - 1].limit() &&
            same_decision(context, s, stage, s - 1, plan.stages[s - 1])) {
            const std::int64_t first_layer = stage.first_layer;
            stage = plan.stages[s - 1], stage.first_layer = first_layer;
        } else {
            decide_placement(context, s, {searches[s].limit(), hosts[s].limit()}, goal, stage);
        }
        return stage.offloaded != before.offloaded || stage.recomputed != before.recomputed;
    };
    for (std::size_t s = 0; s < stages; ++s) decide(s);
    Placed placed = place(context, plan, rounding);
    std::optional<std::pair<std::vector<StagePlan>, Placed>> fitting;  // the latest
    for (int round = 0; round < kPlacementRounds; ++round) {
        if (goal == PlacementGoal::kFit && fit_is_known(context, placed, round == 0)) break;
        const bool last = round + 1 == kPlacementRounds;
        std::vector<StagePlan> before = plan.stages;
        bool searching = false, changed = false;
        const std::vector<Bytes> pinned =
            pinned_bytes(placed.offloaded.step.schedule, context.scenario.cluster.host.allocator);
        for (std::size_t s = 0; s < stages; ++s) {
            bool search_on = searches[s].next(placed.placement.device[s].arena +
                                              page_table_bytes(context.scenario.cluster.gpu, pinned[s]));
            if (limits_host) search_on |= hosts[s].next(pinned[s]);
            if (last) search_on = searches[s].settle() | hosts[s].settle();
            searching |= search_on;
            if (search_on) changed |= decide(s);
        }
        if (!searching) break;
        if (!changed) continue;  // another limit led to the same amounts
        if (fits(context.scenario, placed)) fitting.emplace(std::move(before), std::move(placed));
        placed = place(context, plan, rounding);
    }
    if (!fitting || fits(context.scenario, placed)) return placed;
    plan.stages = std::move(fitting->first);
    return std::move(fitting->second);
}

// What is moved in fact: whole tensors are more than what was decided.
void count_moved(const OffloadedStep& offloaded, std::vector<StagePlan>& stages) {
    for (StagePlan& stage : stages) std::fill(stage.offloaded.begin(), stage.offloaded.end(), 0_B);
    for (std::size_t u = 0; u < offloaded.parts.size(); ++u) {
        const Unit& unit = offloaded.step.units[u];
        const BufferId moved = offloaded.parts[u].moved;
        if (unit.sequence == 0 && moved != kNoBuffer)
            stages[unit.stage].offloaded[unit.slot] += offloaded.step.schedule.buffers[index(moved)].bytes;
    }
}

// Until now the page tables of what is pinned were not known.
void set_device_capacities(const Scenario& scenario, Schedule& folded) {
    const std::vector<Bytes> pinned = pinned_bytes(folded, scenario.cluster.host.allocator);
    for (std::size_t s = 0; s < pinned.size(); ++s)
        folded.ranks[s].device_capacity = usable_device_memory(scenario, pinned[s]);
}

using Amounts = std::vector<std::vector<Bytes>>;  // by stage and subsequence

PlannedStep plan_by(const Scenario& scenario, const Amounts* given, const LowerOptions& options,
                    std::int64_t kv_offloaded = 0, Rounding rounding = Rounding::kUp) {
    SLUICE_CHECK(!scenario.policy.automatic.any(), "automatic choices are made before lowering");
    const auto begin_pass = [&](std::string_view pass) {
        if (options.progress) options.progress(pass);
    };
    PlannedStep result;
    if (std::string reason = too_many_ops(scenario); !reason.empty()) {
        result.reasons.push_back(std::move(reason));
        return result;
    }
    Plan& plan = result.plan;
    begin_pass("partition");
    plan.subsequences = partition_sequence(scenario);
    plan.stages = split_layers(scenario, plan.subsequences);
    for (StagePlan& stage : plan.stages) stage.kv_offloaded = std::min(stage.layers, kv_offloaded);

    begin_pass("fold");
    const FoldedStep step = fold_step(scenario, plan.subsequences, plan.stages);
    if (!options.only_fit) expect_valid(step.schedule, "fold");

    begin_pass("offload and placement");
    const PlacementContext context = placement_context(scenario, plan.subsequences, plan.stages, step);
    fill_windows(context, plan.stages);
    const auto cannot_fit = [&] {
        result.memory = memory_floors(context, plan.stages);
        return std::any_of(result.memory.begin(), result.memory.end(), exceeds);
    };
    if (options.only_fit && given == nullptr && cannot_fit()) {
        result.reasons.push_back("at least what has to live at once exceeds the memory");
        return result;
    }
    if (given != nullptr)
        for (std::size_t s = 0; s < plan.stages.size(); ++s) plan.stages[s].offloaded = (*given)[s];
    const std::vector<StagePlan> undecided = plan.stages;
    const auto [goal, other_goal] = options.only_fit ? std::pair(PlacementGoal::kFit, PlacementGoal::kFastest)
                                                     : std::pair(PlacementGoal::kFastest, PlacementGoal::kFit);
    Placed placed = given != nullptr ? place(context, plan, rounding) : decide_and_place(context, plan, goal, rounding);
    // The three-way rule searches differently for what is fastest and for what fits; where one fails the other is
    // asked. So all that only_fit finds to fit is found here; of what is found here it may miss what it fails by far.
    const auto failed = [&] {
        return options.only_fit ? just_fails(needs_of(scenario, placed)) : !fits(scenario, placed);
    };
    if (given == nullptr && std::holds_alternative<ThreeWay>(scenario.policy.placement) && failed() && !cannot_fit()) {
        plan.stages = undecided;
        placed = decide_and_place(context, plan, other_goal, rounding);
    }
    result.reasons = capacity_report(scenario, placed.offloaded.step.schedule, placed.placement);
    result.memory = needs_of(scenario, placed);
    if (!result.feasible() || options.only_fit) return result;
    count_moved(placed.offloaded, plan.stages);
    for (std::string& note : placement_notes(context, plan.stages)) plan.notes.push_back(std::move(note));
    if (std::string note = split_note(scenario, plan); !note.empty()) plan.notes.push_back(std::move(note));
    result.folded = std::move(placed.offloaded.step);
    set_device_capacities(scenario, result.folded.schedule);
    expect_valid(result.folded.schedule, "placement");
    result.estimate = estimate_step(result.folded, scenario).step;
    return result;
}

// The three-way rule adds up times stage by stage; the longest path through the step is what counts. Where the rule
// recomputes, the other rounding is tried (it moves less, and may spare recomputing), the two-way rule is asked, too,
// and where placement loses so many bytes between buffers that the rule's answer does not fit, recomputing everything:
// the fastest by the estimate is taken.
PlannedStep plan_three_way(const Scenario& scenario, const LowerOptions& options) {
    PlannedStep best = plan_by(scenario, nullptr, options);
    if (best.feasible() && (options.only_fit || !recomputes(best.plan))) return best;
    const auto keep_faster = [&](PlannedStep step) {
        if (step.feasible() && (!best.feasible() || step.estimate < best.estimate)) best = std::move(step);
    };
    if (scenario.policy.granularity == Granularity::kLayer)  // otherwise units do not name tensors
        keep_faster(plan_by(scenario, nullptr, options, 0, Rounding::kCarried));
    for (const PlacementPolicy& other : {PlacementPolicy{AdaptiveOffload{}}, PlacementPolicy{RecomputeAll{}}}) {
        Scenario alternative = scenario;
        alternative.policy.placement = other;
        keep_faster(plan_by(alternative, nullptr, options));
    }
    return best;
}

// K and V go to the host only when nothing else fits, of as few layers as that takes. More of them always free more,
// but for what a layer needs to bring its own back.
PlannedStep plan_kv(const Scenario& scenario, PlannedStep resident, const LowerOptions& options) {
    std::int64_t least = 1, most = 0;
    for (const StagePlan& stage : resident.plan.stages) most = std::max(most, stage.layers);
    if (most < 2) return resident;
    PlannedStep best = plan_by(scenario, nullptr, options, most);
    if (!best.feasible()) return resident;
    if (options.only_fit) return best;
    while (least < most) {
        const std::int64_t middle = least + (most - least) / 2;
        PlannedStep step = plan_by(scenario, nullptr, options, middle);
        if (step.feasible())
            best = std::move(step), most = middle;
        else
            least = middle + 1;
    }
    best.plan.notes.push_back(fmt::format(
        "K and V of the lowest {} layers of a stage are on the host between their uses: nothing else fits", most));
    return best;
}

PlannedStep plan_policy(const Scenario& scenario, const LowerOptions& options) {
    PlannedStep step = std::holds_alternative<ThreeWay>(scenario.policy.placement)
                           ? plan_three_way(scenario, options)
                           : plan_by(scenario, nullptr, options);
    if (step.feasible() || scenario.policy.kv == KvPlacement::kResident) return step;
    return plan_kv(scenario, std::move(step), options);
}

Lowered lower_by(const Scenario& scenario, const Amounts* given, const LowerOptions& options) {
    PlannedStep planned = given != nullptr ? plan_by(scenario, given, options) : plan_policy(scenario, options);
    Lowered result;
    result.plan = std::move(planned.plan);
    result.reasons = std::move(planned.reasons);
    if (!result.feasible()) return result;
    if (options.progress) options.progress("unfold");
    result.schedule = unfold_step(planned.folded, scenario);
    return result;
}

}  // namespace

PlannedStep plan_step(const Scenario& scenario, const LowerOptions& options) { return plan_policy(scenario, options); }

Lowered lower(const Scenario& scenario, const LowerOptions& options) { return lower_by(scenario, nullptr, options); }

Lowered lower_with(const Scenario& scenario, const std::vector<std::vector<Bytes>>& offloaded,
                   const LowerOptions& options) {
    return lower_by(scenario, &offloaded, options);
}

}  // namespace sluice
