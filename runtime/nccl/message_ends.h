// Who talks to whom in a run: the communicators that its ranks need, in one order for all processes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice::cuda {

struct MessageEnds {
    std::string name;              // "group 2", "transfer from rank 0 to rank 1"
    std::vector<Rank> members;     // of a group; of a channel, from and to
    std::optional<GroupId> group;  // else a channel
    std::optional<std::uint32_t> member_of(Rank) const;
};

// Of the groups that a collective of the schedule names, and those beyond the schedule's (transport_groups()), each
// with several members; then of the ordered pairs of ranks that send.
std::vector<MessageEnds> message_ends(const Schedule& schedule, std::span<const Group> groups);

}  // namespace sluice::cuda
