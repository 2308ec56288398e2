#include "planner/folded_step.h"

namespace sluice {
namespace {

struct Copies {  // of a folded rank
    std::size_t shards, replicas;
    explicit Copies(const Scenario& s)
        : shards(static_cast<std::size_t>(s.policy.sp)), replicas(static_cast<std::size_t>(s.policy.dp)) {}
};

}  // namespace

std::size_t group_instances(GroupRole role, const Scenario& s) {
    const Copies copies(s);
    return (spans_shards(role) ? 1 : copies.shards) * (spans_replicas(role) ? 1 : copies.replicas);
}

// Instances are counted like ranks: shards fastest, of the axes that the group does not span.
std::size_t group_instance_of(GroupRole role, std::size_t copy, const Scenario& s) {
    const Copies copies(s);
    const std::size_t shard = spans_shards(role) ? 0 : copy % copies.shards;
    const std::size_t replica = spans_replicas(role) ? 0 : copy / copies.shards;
    return replica * (spans_shards(role) ? 1 : copies.shards) + shard;
}

std::vector<std::size_t> copies_of_group(GroupRole role, std::size_t instance, const Scenario& s) {
    const Copies copies(s);
    std::vector<std::size_t> members;
    for (std::size_t copy = 0; copy < copies.shards * copies.replicas; ++copy)
        if (group_instance_of(role, copy, s) == instance) members.push_back(copy);
    return members;
}

}  // namespace sluice
