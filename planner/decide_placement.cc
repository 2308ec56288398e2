#include "planner/decide_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/format_units.h"
#include "models/collective_cost.h"
#include "models/copy_cost.h"
#include "models/device_memory.h"
#include "models/kernel_cost.h"
#include "models/rails.h"
#include "planner/offload_rule.h"
#include "planner/three_way.h"
#include "schedule/place_memory.h"

namespace sluice {
namespace {

// Compute time of one stage by slot, one sequence's.
std::vector<Seconds> compute_times(const Scenario& scenario, const FoldedStep& step, std::size_t stage,
                                   const StagePlan& plan, Phase phase) {
    const bool by_layer = scenario.policy.order == TraversalOrder::kLayerMajor;
    std::vector<Seconds> times(slots(scenario, plan));
    for (const Op& op : step.schedule.ops) {
        // What the step with nothing recomputed makes again (inventory lean) is part of backward.
        const Phase of = op.tag.phase == Phase::kRecompute ? Phase::kBackward : op.tag.phase;
        if (index(op.rank) != stage || of != phase || op.tag.sequence != 0 || op.tag.subsequence < 0) continue;
        if (by_layer && op.tag.layer < 0) continue;  // embedding and loss stand between no two slots
        if (const auto* work = std::get_if<Compute>(&op.work))
            times[slot_of(scenario, op.tag.layer - plan.first_layer, static_cast<std::size_t>(op.tag.subsequence))] +=
                compute_time(*work, scenario.calibration);
    }
    return times;
}

std::vector<StagePlan> all_recomputed(const Scenario& s, std::vector<StagePlan> plans) {
    for (StagePlan& plan : plans) plan.recomputed.assign(slots(s, plan), layers_per_slot(s, plan));
    return plans;
}

// What recomputing a layer waits for: the two gathers of its inputs, which backward otherwise hides behind its first
// GEMMs, and of a whole layer the reduction between them; with Ulysses the query's all-to-all, and of a whole layer
// that of attention's output, which backward needs in any case.
Seconds recompute_exchange(const Scenario& s, Subsequence sub) {
    std::vector<Rank> members;
    for (std::int64_t t = 0; t < s.policy.sp; ++t) members.push_back(id_at<Rank>(static_cast<std::size_t>(t)));
    const bool across = s.policy.sp > s.cluster.gpus_per_node;
    const std::size_t rails = across ? rails_of(members, s.cluster).count : 1;
    const auto time = [&](CollectiveKind kind, Bytes bytes, std::uint32_t calls) {
        const Collective work{kind, GroupId{}, bytes, calls, 0};
        return collective_time(work, members.size(), across, s.calibration, rails);
    };
    if (s.ulysses())
        return time(CollectiveKind::kAllToAll, query_exchange_bytes(s, sub), s.recomputes_layers() ? 2 : 1);
    Seconds sum = time(CollectiveKind::kAllGather, gathered_bytes(s, sub), 2);
    if (s.recomputes_layers()) sum += time(CollectiveKind::kReduceScatter, gathered_bytes(s, sub), 1);
    return sum;
}

PlacementContext::Times times_of(const Scenario& scenario, const std::vector<Subsequence>& subsequences,
                                 const FoldedStep& step, std::size_t stage, const StagePlan& plan) {
    PlacementContext::Times times;
    times.forward = compute_times(scenario, step, stage, plan, Phase::kForward);
    times.backward = compute_times(scenario, step, stage, plan, Phase::kBackward);
    for (std::size_t k = 0; k < times.forward.size(); ++k) {
        const Subsequence sub = subsequences[subsequence_of(scenario, k)];
        const LayerRecompute again = layer_recompute(scenario, sub);
        const bool lean = scenario.policy.inventory == Inventory::kLean;  // makes the norms in any case
        Compute work{lean ? KernelChain{} : again.norms};
        for (const KernelChain* chain :
             {&again.mlp, &again.query, &again.attention, &again.projection, &again.residual})
            work.kernels.insert(work.kernels.end(), chain->begin(), chain->end());
        times.recompute_kernels.push_back(compute_time(work, scenario.calibration));
        times.recompute.push_back(times.recompute_kernels.back());
        if (scenario.policy.sp > 1) times.recompute.back() += recompute_exchange(scenario, sub);
    }
    return times;
}

std::int64_t units_per_slot(const PlacementContext& context, const StagePlan& plan) {
    const Scenario& s = context.scenario;
    return s.policy.granularity == Granularity::kLayer ? layers_per_slot(s, plan) : 1;
}

std::vector<Bytes> fixed_amounts(const PlacementPolicy& policy, const std::vector<Bytes>& activation) {
    double ratio = std::holds_alternative<OffloadAll>(policy) ? 1 : 0;
    if (const auto* constant = std::get_if<OffloadRatio>(&policy)) ratio = constant->alpha;
    std::vector<Bytes> x;
    for (const Bytes a : activation)
        x.push_back(ratio == 1 ? a : Bytes{std::llround(std::floor(ratio * static_cast<double>(a.value)))});
    return x;
}

}  // namespace

PlacementContext placement_context(const Scenario& scenario, const std::vector<Subsequence>& subsequences,
                                   const std::vector<StagePlan>& plans, const FoldedStep& step) {
    FoldedStep recomputing;
    if (scenario.policy.may_recompute())
        recomputing = fold_step(scenario, subsequences, all_recomputed(scenario, plans));
    const OffloadedStep probe =
        offload_units(scenario.policy.may_recompute() ? recomputing : step, std::vector<Bytes>(step.units.size(), 1_B));
    PlacementContext context{scenario, step, {}, {}};
    for (std::size_t s = 0; s < step.schedule.ranks.size(); ++s) {
        context.models.emplace_back(probe, step, s);
        context.times.push_back(times_of(scenario, subsequences, step, s, plans[s]));
    }
    return context;
}

namespace {

// The window of slot i when `next` layers of i+1 are recomputed.
Bytes window_of(const PlacementContext& context, std::size_t stage, const StagePlan& plan, std::size_t i,
                std::int64_t next) {
    const PlacementContext::Times& times = context.times[stage];
    if (i + 1 >= times.forward.size()) return {};
    const Cluster& cluster = context.scenario.cluster;
    const Seconds more_copies = cluster.pcie.latency * static_cast<double>(units_per_slot(context, plan) - 1);
    const Seconds backward = times.backward[i + 1] + times.recompute_kernels[i + 1] * static_cast<double>(next);
    return std::min(hidden_d2h(cluster, times.forward[i + 1] - more_copies),
                    hidden_h2d(cluster, backward - more_copies));
}

void decide_three_way(const PlacementContext& context, std::size_t stage, PlacementLimits limits, PlacementGoal goal,
                      StagePlan& plan) {
    const Bytes limit = limits.device;
    const LiveModel& model = context.models[stage];
    const Cluster& cluster = context.scenario.cluster;
    ThreeWayProblem problem;
    problem.activation = plan.activation;
    problem.cheap = model.cheap();
    problem.recompute = context.times[stage].recompute;
    problem.layers = layers_per_slot(context.scenario, plan);
    problem.window = [&](std::size_t i, std::int64_t next) { return window_of(context, stage, plan, i, next); };
    problem.exposed = BytesPerSecond{1 / (1 / shared_d2h(cluster).value + 1 / shared_h2d(cluster).value)};
    problem.host = limits.host;
    problem.quantum = kPlacementAlignment * units_per_slot(context, plan);
    problem.fits = [&](const std::vector<Bytes>& x, const std::vector<std::int64_t>& r) {
        return model.peak(x, r) <= limit;
    };
    problem.excess = [&](const std::vector<std::int64_t>& r) {
        const Bytes peak = model.peak(std::vector<Bytes>(plan.activation.size()), r);
        return peak > limit ? peak - limit : Bytes{};
    };
    problem.only_fit = goal == PlacementGoal::kFit;
    problem.shortages = [&](const std::vector<Bytes>& x) { return model.shortages(x, limit); };
    ThreeWayChoice choice = choose_three_way(problem);
    plan.offloaded = std::move(choice.x), plan.recomputed = std::move(choice.r);
    plan.added = choice.added, plan.least_added = choice.bound;
    for (std::size_t i = 0; i + 1 < plan.window.size(); ++i)
        plan.window[i] = window_of(context, stage, plan, i, plan.recomputed[i + 1]);
}

}  // namespace

void fill_windows(const PlacementContext& context, std::vector<StagePlan>& plans) {
    for (std::size_t s = 0; s < plans.size(); ++s) {
        StagePlan& plan = plans[s];
        plan.activation = context.models[s].activation();
        const std::size_t n = plan.activation.size();
        plan.offloaded.assign(n, Bytes{});
        plan.window.clear();
        for (std::size_t i = 0; i < n; ++i)
            plan.window.push_back(
                window_of(context, s, plan, i, plan.recomputed.empty() || i + 1 == n ? 0 : plan.recomputed[i + 1]));
    }
}

bool same_decision(const PlacementContext& context, std::size_t a, const StagePlan& plan_a, std::size_t b,
                   const StagePlan& plan_b) {
    return plan_a.layers == plan_b.layers && plan_a.activation == plan_b.activation && plan_a.window == plan_b.window &&
           context.models[a].same_lives(context.models[b]);
}

namespace {

std::string exposure_note(const PlacementContext& context, const StagePlan& plan) {
    Bytes beyond{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < plan.offloaded.size(); ++i)
        if (plan.offloaded[i] > plan.window[i]) beyond += plan.offloaded[i] - plan.window[i], ++count;
    if (count == 0) return {};
    return fmt::format(
        "the copies of {} of {} subsequences exceed what hides behind compute, by {} in all, about {} exposed each way",
        count, plan.offloaded.size(), format(beyond), format(beyond / shared_d2h(context.scenario.cluster)));
}

std::string recompute_note(const PlacementContext& context, std::size_t stage, const StagePlan& plan) {
    if (!plan.recomputes()) return {};
    std::int64_t layers = 0;
    Seconds time{};
    for (std::size_t i = 0; i < plan.recomputed.size(); ++i) {
        layers += plan.recomputed[i];
        time += context.times[stage].recompute[i] * static_cast<double>(plan.recomputed[i]);
    }
    const std::int64_t all = plan.layers * context.scenario.policy.n;
    std::string note = fmt::format("{} of {} layer activations are recomputed{}, for about {}", layers, all,
                                   context.scenario.recomputes_layers() ? ", attention included" : "", format(time));
    if (std::holds_alternative<ThreeWay>(context.scenario.policy.placement) && plan.added > plan.least_added)
        note +=
            fmt::format("; no placement adds less than {}, this one {}", format(plan.least_added), format(plan.added));
    return note;
}

void append_by_stage(const std::vector<std::string>& texts, std::vector<std::string>& notes) {
    for (std::size_t first = 0, last = 0; first < texts.size(); first = last + 1) {
        last = first;
        while (last + 1 < texts.size() && texts[last + 1] == texts[first]) ++last;
        if (texts[first].empty()) continue;
        notes.push_back(first == last ? fmt::format("stage {}: {}", first, texts[first])
                                      : fmt::format("stages {}-{}, each: {}", first, last, texts[first]));
    }
}

}  // namespace

std::vector<std::string> placement_notes(const PlacementContext& context, const std::vector<StagePlan>& plans) {
    std::vector<std::string> exposed, recomputed, notes;
    for (std::size_t s = 0; s < plans.size(); ++s) {
        exposed.push_back(exposure_note(context, plans[s]));
        recomputed.push_back(recompute_note(context, s, plans[s]));
    }
    append_by_stage(exposed, notes);
    append_by_stage(recomputed, notes);
    return notes;
}

Bytes host_share(const Scenario& s) { return s.cluster.host.usable() / s.cluster.gpus_per_node; }

namespace {

void decide_within(const PlacementContext& context, std::size_t stage, PlacementLimits limits, PlacementGoal goal,
                   StagePlan& plan) {
    const PlacementPolicy& policy = context.scenario.policy.placement;
    if (std::holds_alternative<ThreeWay>(policy)) return decide_three_way(context, stage, limits, goal, plan);
    if (!std::holds_alternative<AdaptiveOffload>(policy)) {
        plan.offloaded = fixed_amounts(policy, plan.activation);
        if (std::holds_alternative<RecomputeAll>(policy))
            plan.recomputed.assign(plan.activation.size(), layers_per_slot(context.scenario, plan));
        return;
    }
    const LiveModel& model = context.models[stage];
    OffloadProblem problem;
    problem.activation = plan.activation;
    problem.window = plan.window;
    problem.quantum = kPlacementAlignment * units_per_slot(context, plan);
    problem.fits = [&](const std::vector<Bytes>& x) { return model.peak(x) <= limits.device; };
    plan.offloaded = choose_offload(problem).x;
}

}  // namespace

// What is moved is pinned, and what is pinned takes page tables off the limit: more is then moved, until the tables
// of what is moved are among those that were counted. As moving more never needs more live bytes, this grows; each round
// by a sixteenth of the one before at most, to whole MiB: two or three rounds.
void decide_placement(const PlacementContext& context, std::size_t stage, PlacementLimits limits, PlacementGoal goal,
                      StagePlan& plan) {
    Bytes tables{};
    while (true) {
        decide_within(context, stage, {limits.device - tables, limits.host}, goal, plan);
        const Bytes moved = std::accumulate(plan.offloaded.begin(), plan.offloaded.end(), Bytes{});
        const Bytes needed = page_table_bytes(context.scenario.cluster.gpu, moved);
        if (needed <= tables) return;
        tables = round_up(needed, 1_MiB);
    }
}

std::vector<Bytes> moved_by_unit(const PlacementContext& context, const std::vector<StagePlan>& plans) {
    std::vector<Bytes> moved(context.step.units.size());
    for (std::size_t s = 0; s < plans.size(); ++s) {
        const std::vector<Bytes> shares = context.models[s].shares(plans[s].offloaded, plans[s].recomputed);
        for (std::size_t k = 0; k < shares.size(); ++k) moved[context.models[s].units()[k]] = shares[k];
    }
    return moved;
}

}  // namespace sluice
