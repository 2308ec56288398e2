#include "planner/offload_amounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/format_units.h"
#include "models/copy_cost.h"
#include "models/kernel_cost.h"
#include "planner/offload_rule.h"
#include "schedule/place_memory.h"

namespace sluice {
namespace {

// Compute time of one stage by subsequence, one sequence's.
std::vector<Seconds> compute_times(const OffloadContext& context, std::size_t stage, Phase phase) {
    std::vector<Seconds> times(static_cast<std::size_t>(context.scenario.policy.n));
    for (const Op& op : context.step.schedule.ops) {
        if (index(op.rank) != stage || op.tag.phase != phase || op.tag.sequence != 0 || op.tag.subsequence < 0)
            continue;
        if (const auto* work = std::get_if<Compute>(&op.work))
            times[static_cast<std::size_t>(op.tag.subsequence)] += compute_time(*work, context.scenario.calibration);
    }
    return times;
}

std::int64_t units_per_subsequence(const OffloadContext& context, const StagePlan& plan) {
    return context.scenario.policy.granularity == Granularity::kLayer ? plan.layers : 1;
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

OffloadContext offload_context(const Scenario& scenario, const FoldedStep& step) {
    const OffloadedStep probe = offload_units(step, std::vector<Bytes>(step.units.size(), 1_B));
    OffloadContext context{scenario, step, {}};
    for (std::size_t s = 0; s < step.schedule.ranks.size(); ++s) context.models.emplace_back(probe, step, s);
    return context;
}

void fill_windows(const OffloadContext& context, std::vector<StagePlan>& plans) {
    const Cluster& cluster = context.scenario.cluster;
    for (std::size_t s = 0; s < plans.size(); ++s) {
        StagePlan& plan = plans[s];
        plan.activation = context.models[s].activation();
        const std::size_t n = plan.activation.size();
        plan.offloaded.assign(n, Bytes{});
        plan.window.assign(n, Bytes{});
        const std::vector<Seconds> forward = compute_times(context, s, Phase::kForward);
        const std::vector<Seconds> backward = compute_times(context, s, Phase::kBackward);
        const Seconds more_copies =
            cluster.pcie.latency * static_cast<double>(units_per_subsequence(context, plan) - 1);
        for (std::size_t i = 0; i + 1 < n; ++i)
            plan.window[i] = std::min(hidden_d2h(cluster, forward[i + 1] - more_copies),
                                      hidden_h2d(cluster, backward[i + 1] - more_copies));
    }
}

bool same_decision(const OffloadContext& context, std::size_t a, const StagePlan& plan_a, std::size_t b,
                   const StagePlan& plan_b) {
    return plan_a.layers == plan_b.layers && plan_a.activation == plan_b.activation && plan_a.window == plan_b.window &&
           context.models[a].same_lives(context.models[b]);
}

std::string exposure_note(const OffloadContext& context, std::size_t stage, const StagePlan& plan) {
    Bytes beyond{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < plan.offloaded.size(); ++i)
        if (plan.offloaded[i] > plan.window[i]) beyond += plan.offloaded[i] - plan.window[i], ++count;
    if (count == 0) return {};
    return fmt::format(
        "stage {}: the copies of {} of {} subsequences exceed what hides behind compute, by {} in all, "
        "about {} exposed each way",
        stage, count, plan.offloaded.size(), format(beyond), format(beyond / shared_d2h(context.scenario.cluster)));
}

void decide_offload(const OffloadContext& context, std::size_t stage, Bytes limit, StagePlan& plan) {
    const PlacementPolicy& policy = context.scenario.policy.placement;
    if (!std::holds_alternative<AdaptiveOffload>(policy)) {
        plan.offloaded = fixed_amounts(policy, plan.activation);
        return;
    }
    const LiveModel& model = context.models[stage];
    OffloadProblem problem;
    problem.activation = plan.activation;
    problem.window = plan.window;
    problem.quantum = kPlacementAlignment * units_per_subsequence(context, plan);
    problem.fits = [&](const std::vector<Bytes>& x) { return model.peak(x) <= limit; };
    plan.offloaded = choose_offload(problem).x;
}

std::vector<Bytes> moved_by_unit(const OffloadContext& context, const std::vector<StagePlan>& plans) {
    std::vector<Bytes> moved(context.step.units.size());
    for (std::size_t s = 0; s < plans.size(); ++s) {
        const std::vector<Bytes> shares = context.models[s].shares(plans[s].offloaded);
        for (std::size_t k = 0; k < shares.size(); ++k) moved[context.models[s].units()[k]] = shares[k];
    }
    return moved;
}

}  // namespace sluice
