#include "runtime/communicators.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/format_units.h"

namespace sluice {
namespace {

struct CallWords {
    std::string operator()(const Compute&) const { return "compute"; }
    std::string operator()(const Copy& w) const { return "copy " + format(w.bytes); }
    std::string operator()(const Send& w) const { return "transfer " + format(w.bytes); }
    std::string operator()(const Receive& w) const { return "transfer " + format(w.bytes); }
    std::string operator()(const Collective& w) const { return fmt::format("{} {}", name(w.kind), format(w.bytes)); }
};

}  // namespace

Communicators::Communicators(const Schedule& schedule, RunMonitor& monitor) {
    for (const Group& group : schedule.groups)
        groups_.emplace_back(fmt::format("group {}", index(group.id)), group.members, monitor);
    for (const Op& op : schedule.ops) {
        if (op.lane.kind == LaneKind::kSend) index_.push_back({{op.rank, op.lane.peer}, 0});
        if (op.lane.kind == LaneKind::kReceive) index_.push_back({{op.lane.peer, op.rank}, 0});
    }
    std::sort(index_.begin(), index_.end(), [](const Channel& a, const Channel& b) { return a.ends < b.ends; });
    index_.erase(
        std::unique(index_.begin(), index_.end(), [](const Channel& a, const Channel& b) { return a.ends == b.ends; }),
        index_.end());
    for (Channel& channel : index_) {
        channel.position = channels_.size();
        const auto [from, to] = channel.ends;
        channels_.emplace_back(fmt::format("transfer from rank {} to rank {}", index(from), index(to)),
                               std::vector<Rank>{from, to}, monitor);
    }
}

Communicator& Communicators::channel(Rank from, Rank to) {
    const std::pair ends(from, to);
    const auto at = std::lower_bound(index_.begin(), index_.end(), ends,
                                     [](const Channel& c, const auto& wanted) { return c.ends < wanted; });
    if (at == index_.end() || at->ends != ends)
        throw InternalError(fmt::format("no transfer from rank {} to rank {} is scheduled", index(from), index(to)));
    return channels_[at->position];
}

std::string describe_call(const Op& op) {
    std::string text = fmt::format("{}, {}", std::visit(CallWords{}, op.work), name(op.tag.phase));
    const bool collective = std::holds_alternative<Collective>(op.work);
    if (collective && op.tag.layer >= 0) text += fmt::format(" layer {}", op.tag.layer);
    if (op.tag.subsequence >= 0) text += fmt::format(" sub {}", op.tag.subsequence);
    if (op.tag.part >= 0) text += fmt::format(" part {}", op.tag.part);
    return text;
}

}  // namespace sluice
