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
    pairs_ = transfer_pairs(schedule);
    for (const auto& [from, to] : pairs_)
        channels_.emplace_back(transfer_name(from, to), std::vector<Rank>{from, to}, monitor);
}

Communicator& Communicators::channel(Rank from, Rank to) {
    const std::pair ends(from, to);
    const auto at = std::lower_bound(pairs_.begin(), pairs_.end(), ends);
    if (at == pairs_.end() || *at != ends)
        throw InternalError(fmt::format("no {} is scheduled", transfer_name(from, to)));
    return channels_[static_cast<std::size_t>(at - pairs_.begin())];
}

std::vector<std::pair<Rank, Rank>> transfer_pairs(const Schedule& schedule) {
    std::vector<std::pair<Rank, Rank>> pairs;
    for (const Op& op : schedule.ops) {
        if (op.lane.kind == LaneKind::kSend) pairs.emplace_back(op.rank, op.lane.peer);
        if (op.lane.kind == LaneKind::kReceive) pairs.emplace_back(op.lane.peer, op.rank);
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    return pairs;
}

std::string transfer_name(Rank from, Rank to) {
    return fmt::format("transfer from rank {} to rank {}", index(from), index(to));
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
