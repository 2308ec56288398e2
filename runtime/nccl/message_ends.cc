#include "runtime/nccl/message_ends.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/communicators.h"

namespace sluice::cuda {

std::optional<std::uint32_t> MessageEnds::member_of(Rank rank) const {
    const auto found = std::find(members.begin(), members.end(), rank);
    if (found == members.end()) return std::nullopt;
    return static_cast<std::uint32_t>(found - members.begin());
}

std::vector<MessageEnds> message_ends(const Schedule& schedule, std::span<const Group> groups) {
    std::set<GroupId> used;
    for (const Op& op : schedule.ops)
        if (const auto* collective = std::get_if<Collective>(&op.work)) used.insert(collective->group);
    std::vector<MessageEnds> ends;
    for (const Group& group : groups)
        if (group.members.size() > 1 && (used.contains(group.id) || index(group.id) >= schedule.groups.size()))
            ends.push_back({fmt::format("group {}", index(group.id)), group.members, group.id});
    for (const auto& [from, to] : transfer_pairs(schedule)) ends.push_back({transfer_name(from, to), {from, to}, {}});
    return ends;
}

}  // namespace sluice::cuda
