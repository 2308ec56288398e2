#include "base/error.h"
#include "runtime/cuda/transport.h"

namespace sluice::cuda {

// Ranks of a sequence-parallel group follow one another (runtime/run_shape.h).
std::vector<Group> transport_groups(const Schedule& schedule, std::int64_t shards, std::int64_t weight_shards) {
    std::vector<Group> groups = schedule.groups;
    if (weight_shards == 1) return groups;
    for (std::size_t first = 0; first < schedule.ranks.size(); first += static_cast<std::size_t>(shards)) {
        Group group;
        group.id = id_at<GroupId>(groups.size());
        for (std::int64_t t = 0; t < shards; ++t)
            group.members.push_back(id_at<Rank>(first + static_cast<std::size_t>(t)));
        groups.push_back(std::move(group));
    }
    return groups;
}

GroupId loss_group(const Schedule& schedule, std::int64_t shards, Rank rank) {
    return id_at<GroupId>(schedule.groups.size() + index(rank) / static_cast<std::size_t>(shards));
}

}  // namespace sluice::cuda
