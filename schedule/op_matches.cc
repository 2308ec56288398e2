#include "schedule/op_matches.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sluice {
namespace {

// Matches opened so far between two ranks or in a group, and how many of them each partner has taken part in.
struct Series {
    std::vector<std::uint32_t> matches;
    std::vector<std::size_t> taken;  // by partner
};

}  // namespace

std::uint32_t OpMatches::add(std::size_t partners) {
    members_.resize(members_.size() + partners, kNoOp);
    first_.push_back(static_cast<std::uint32_t>(members_.size()));
    return static_cast<std::uint32_t>(first_.size() - 2);
}

void OpMatches::place(std::uint32_t match, std::size_t slot, OpId op) {
    members_[first_[match] + slot] = op;
    of_op_[index(op)] = match;
}

OpMatches::OpMatches(const Schedule& schedule) : of_op_(schedule.ops.size(), kNoMatch) {
    std::map<std::pair<Rank, Rank>, Series> channels;  // by (source, destination)
    std::vector<Series> groups(schedule.groups.size());

    const auto join = [&](Series& series, std::size_t partners, std::size_t slot, OpId op) {
        if (series.taken.empty()) series.taken.resize(partners, 0);
        const std::size_t turn = series.taken[slot]++;
        if (turn == series.matches.size()) series.matches.push_back(add(partners));
        place(series.matches[turn], slot, op);
    };
    for (const Op& op : schedule.ops) {
        if (op.lane.kind == LaneKind::kSend) {
            join(channels[{op.rank, op.lane.peer}], 2, 0, op.id);
        } else if (op.lane.kind == LaneKind::kReceive) {
            join(channels[{op.lane.peer, op.rank}], 2, 1, op.id);
        } else if (const auto* collective = std::get_if<Collective>(&op.work)) {
            const std::vector<Rank>& members = schedule.groups[index(collective->group)].members;
            const auto slot =
                static_cast<std::size_t>(std::find(members.begin(), members.end(), op.rank) - members.begin());
            if (slot < members.size()) {
                join(groups[index(collective->group)], members.size(), slot, op.id);
            } else {
                place(add(2), 0, op.id);  // not a member of its own group: nobody will ever come
            }
        }
    }
}

}  // namespace sluice
