#include "models/device_memory.h"
#include "planner/folded_step.h"
#include "planner/stage_emitter.h"

namespace sluice {
namespace {

GroupId add_group(FoldedStep& step, GroupRole role, std::vector<Rank> members) {
    const auto id = id_at<GroupId>(step.schedule.groups.size());
    step.schedule.groups.push_back({id, std::move(members)});
    step.group_roles.push_back(role);
    return id;
}

FoldedGroups add_groups(const Scenario& scenario, FoldedStep& step) {
    FoldedGroups groups;
    std::vector<Rank> all;
    for (std::int64_t s = 0; s < scenario.policy.pp; ++s) {
        all.push_back(id_at<Rank>(static_cast<std::size_t>(s)));
        groups.sequence_parallel.push_back(add_group(step, GroupRole::kSequenceParallel, {all.back()}));
    }
    // With gradients shared out, replicas hold different parts of the norm.
    const bool same_norm = scenario.policy.dp > 1 && !scenario.shares(ZeroStage::kOptimizer);
    groups.everyone = add_group(step, same_norm ? GroupRole::kReplica : GroupRole::kEveryRank, all);
    if (scenario.model.tied_embeddings && scenario.policy.pp > 1)
        groups.tied_ends = add_group(step, GroupRole::kSameShard, {all.front(), all.back()});
    if (scenario.policy.dp > 1)
        for (const Rank stage : all)
            groups.data_parallel.push_back(add_group(step, GroupRole::kDataParallel, {stage}));
    return groups;
}

// Room for `more` stages that list about as much as the last one did: moving hundreds of thousands of ops each time
// that a vector grows takes longer than listing them.
void reserve_like_last(Schedule& schedule, std::size_t ops_before, std::size_t buffers_before, std::size_t more) {
    const auto room = [&](std::size_t now, std::size_t before) { return now + (now - before) * more * 9 / 8; };
    schedule.ops.reserve(room(schedule.ops.size(), ops_before));
    schedule.buffers.reserve(room(schedule.buffers.size(), buffers_before));
}

}  // namespace

std::size_t slot_of(const Scenario& s, std::int64_t layer_of_stage, std::size_t subsequence) {
    if (s.policy.order == TraversalOrder::kSubsequenceMajor) return subsequence;
    return static_cast<std::size_t>(layer_of_stage * s.policy.n) + subsequence;
}

std::int64_t layers_per_slot(const Scenario& s, const StagePlan& plan) {
    return s.policy.order == TraversalOrder::kSubsequenceMajor ? plan.layers : 1;
}

std::size_t slots(const Scenario& s, const StagePlan& plan) {
    return static_cast<std::size_t>(s.policy.n * (plan.layers / layers_per_slot(s, plan)));
}

std::size_t subsequence_of(const Scenario& s, std::size_t slot) { return slot % static_cast<std::size_t>(s.policy.n); }

FoldedStep fold_step(const Scenario& scenario, const std::vector<Subsequence>& subsequences,
                     const std::vector<StagePlan>& plans) {
    FoldedStep step;
    // A stage's pinned memory is checked against its node when it is unfolded; here each stage has a node to itself.
    // What it takes of the GPU's is known when it has been placed.
    for (std::size_t s = 0; s < plans.size(); ++s) {
        step.schedule.hosts.push_back({scenario.cluster.host.usable()});
        step.schedule.ranks.push_back({id_at<HostId>(s), usable_device_memory(scenario, Bytes{})});
    }
    const FoldedGroups groups = add_groups(scenario, step);
    std::size_t ops = 0, buffers = 0;  // so far, before the stage at hand
    for (std::size_t s = 0; s < plans.size(); ++s) {
        if (s == 2) reserve_like_last(step.schedule, ops, buffers, plans.size() - s);
        ops = step.schedule.ops.size(), buffers = step.schedule.buffers.size();
        StageEmitter stage(scenario, subsequences, plans, groups, s, step);
        for (std::int32_t q = 0; q < scenario.sequences_of_replica(); ++q) {
            stage.forward(q);
            stage.backward(q);
        }
        stage.optimizer();
    }
    return step;
}

}  // namespace sluice
