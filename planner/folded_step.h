// The first lowering pass: one training step as a schedule of one rank per stage, nothing offloaded, nothing placed.
//
// The ranks of a sequence-parallel group do the same work on different shards, and data-parallel replicas the same on
// other sequences, so passes work on one of them ("folded") and unfold_step() copies the result at the end. A folded
// schedule is valid by itself: a sequence-parallel group has one member in it, and so has a data-parallel one.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

// How a folded group grows when ranks are unfolded: folded rank s stands for sp x dp ranks, shard t of replica d.
enum class GroupRole : std::uint8_t {
    kSequenceParallel,  // per replica: all shards of the one folded member
    kReplica,           // per replica: all shards of all members
    kEveryRank,         // all ranks of the job
    kSameShard,         // per replica and shard: the members' ranks
    kDataParallel,      // per shard: all replicas of the one folded member
};
constexpr bool spans_shards(GroupRole role) { return role < GroupRole::kSameShard; }
constexpr bool spans_replicas(GroupRole role) {
    return role == GroupRole::kEveryRank || role == GroupRole::kDataParallel;
}

// Rank of shard t of replica d of a stage: (stage x dp + d) x sp + t, as Megatron lays them out. `copy` = d x sp + t.
inline Rank unfolded_rank(Rank folded, std::size_t copy, const Scenario& s) {
    return id_at<Rank>(index(folded) * static_cast<std::size_t>(s.ranks_of_stage()) + copy);
}

// The copies, ascending, that instance `instance` of a folded group holds of each member.
std::vector<std::size_t> copies_of_group(GroupRole, std::size_t instance, const Scenario&);
// How many groups a folded one becomes, and which of them `copy` belongs to.
std::size_t group_instances(GroupRole, const Scenario&);
std::size_t group_instance_of(GroupRole, std::size_t copy, const Scenario&);

// What may be kept, offloaded or recomputed as one: the activations of a layer (stage granularity: of a stage) and a
// subsequence. Where layers are recomputed, `buffer` is without their cheap part, which is written twice: into
// `dropped` by forward, where nobody needs it later, and into `remade` by the recompute ops. Both hold one layer's at a
// time.
struct Unit {
    std::size_t stage = 0;
    std::int32_t sequence = 0;
    std::size_t subsequence = 0;
    std::size_t slot = 0;     // of the stage plan's vectors
    std::int32_t layer = -1;  // -1: all layers of the stage
    BufferId buffer{};
    BufferId dropped = kNoBuffer, remade = kNoBuffer;
    OpId offload_after{};  // the op after which the copy out is listed: bytes it moved are free from here on
    OpId reload_before{};  // the op before which the copy in is listed: its target is needed from here on
};

struct FoldedStep {
    Schedule schedule;
    std::vector<GroupRole> group_roles;  // by group
    std::vector<Unit> units;             // of a stage in the order in which forward makes them
};

// What a stage plan decides by: a subsequence, or in layer-major order a layer of the stage and a subsequence, in the
// order in which forward visits them.
std::size_t slots(const Scenario&, const StagePlan&);
std::size_t slot_of(const Scenario&, std::int64_t layer_of_stage, std::size_t subsequence);
std::int64_t layers_per_slot(const Scenario&, const StagePlan&);
std::size_t subsequence_of(const Scenario&, std::size_t slot);

// Lists per rank, in issue order: receives one subsequence ahead, forward of 0..N-1, sends one subsequence late (so
// that a slow neighbour does not hold memory up), backward of N-1..0, gradient reductions, optimizer. Sequences one
// after another. Of the stage plans it needs the layers and what is recomputed: a recompute op is listed before the
// backward op that waits for the gradient from the next stage, so that it may run while the stage waits. In layer-major
// order all subsequences of a layer, then the next layer; backward the other way round. K and V of a layer then are
// idle between its forward and its backward, dK and dV live for its backward only.
FoldedStep fold_step(const Scenario&, const std::vector<Subsequence>&, const std::vector<StagePlan>&);

}  // namespace sluice
