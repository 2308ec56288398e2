#include "schedule/unit_time_run.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

namespace sluice {
namespace {

constexpr std::uint32_t kNoMatch = 0xffffffffU;

// Ops that start together. It starts when `members` of them are ready; members that are missing keep it from ever
// starting.
struct Match {
    std::size_t members = 0;
    std::vector<std::uint32_t> ready;
};

// Which match each message takes part in: rule 3's counting, by op.
class Matches {
public:
    explicit Matches(const Schedule& schedule) : schedule_(schedule) {
        of_op_.reserve(schedule.ops.size());
        for (const Op& op : schedule.ops) of_op_.push_back(match_of(op));
    }

    std::uint32_t of(std::size_t op) const { return of_op_[op]; }

    // Notes that a member is ready; the members once all are.
    std::vector<std::uint32_t> arrive(std::uint32_t op) {
        Match& match = matches_[of_op_[op]];
        match.ready.push_back(op);
        return match.ready.size() == match.members ? std::move(match.ready) : std::vector<std::uint32_t>{};
    }

private:
    // Messages of one kind between the same ranks, or of one group, are counted on each side.
    enum class Kind : std::uint8_t { kTransfer, kCollective };
    using Channel = std::tuple<Kind, std::uint32_t, std::uint32_t>;  // from and to, or group and 0

    std::uint32_t match_of(const Op& op) {
        const auto rank = static_cast<std::uint32_t>(op.rank);
        const auto peer = static_cast<std::uint32_t>(op.lane.peer);
        if (std::holds_alternative<Send>(op.work)) return numbered({Kind::kTransfer, rank, peer}, 0, 2);
        if (std::holds_alternative<Receive>(op.work)) return numbered({Kind::kTransfer, peer, rank}, 1, 2);
        if (const auto* collective = std::get_if<Collective>(&op.work)) {
            const auto group = static_cast<std::uint32_t>(collective->group);
            return numbered({Kind::kCollective, group, 0}, rank, member_count(group));
        }
        return kNoMatch;
    }

    // The match of the next message of this channel seen from `side`.
    std::uint32_t numbered(const Channel& channel, std::uint32_t side, std::size_t members) {
        const std::uint32_t k = seen_[{channel, side}]++;
        const auto [at, is_new] = numbers_.try_emplace({channel, k}, static_cast<std::uint32_t>(matches_.size()));
        if (is_new) matches_.push_back(Match{members, {}});
        return at->second;
    }

    std::size_t member_count(std::uint32_t group) const {
        if (group >= schedule_.groups.size()) return schedule_.ranks.size() + 1;  // nobody can complete it
        std::vector<Rank> members = schedule_.groups[group].members;
        std::sort(members.begin(), members.end());
        return static_cast<std::size_t>(std::unique(members.begin(), members.end()) - members.begin());
    }

    const Schedule& schedule_;
    std::vector<std::uint32_t> of_op_;
    std::vector<Match> matches_;
    std::map<std::pair<Channel, std::uint32_t>, std::uint32_t> seen_, numbers_;
};

// What each op waits for, as a count, and whom it releases.
struct Waits {
    std::vector<std::uint32_t> count;
    std::vector<std::uint32_t> first;  // by op, one more at the end: index into released
    std::vector<std::uint32_t> released;
};

std::vector<std::pair<std::uint32_t, std::uint32_t>> edges(const Schedule& schedule) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> found;  // (before, then)
    std::map<std::pair<Rank, Lane>, std::uint32_t> last;
    for (std::uint32_t i = 0; i < schedule.ops.size(); ++i) {
        const Op& op = schedule.ops[i];
        const auto [at, is_first] = last.try_emplace({op.rank, op.lane}, i);
        if (!is_first) found.emplace_back(std::exchange(at->second, i), i);
        for (const OpId before : op.after)
            if (index(before) < schedule.ops.size()) found.emplace_back(static_cast<std::uint32_t>(before), i);
    }
    return found;
}

Waits waits(const Schedule& schedule) {
    const auto pairs = edges(schedule);
    Waits w;
    w.count.resize(schedule.ops.size());
    w.first.resize(schedule.ops.size() + 1);
    w.released.resize(pairs.size());
    for (const auto& [before, then] : pairs) ++w.first[before + 1], ++w.count[then];
    for (std::size_t i = 1; i < w.first.size(); ++i) w.first[i] += w.first[i - 1];
    std::vector<std::uint32_t> next = w.first;
    for (const auto& [before, then] : pairs) w.released[next[before]++] = then;
    return w;
}

}  // namespace

std::vector<std::uint32_t> unit_time_run(const Schedule& schedule) {
    Waits left = waits(schedule);
    Matches matches(schedule);
    std::vector<std::uint32_t> start(schedule.ops.size(), kNeverStarts);
    std::vector<std::uint32_t> ready;
    for (std::uint32_t op = 0; op < schedule.ops.size(); ++op)
        if (left.count[op] == 0) ready.push_back(op);
    for (std::uint32_t step = 0; !ready.empty(); ++step) {
        std::vector<std::uint32_t> started;
        for (const std::uint32_t op : ready) {
            if (matches.of(op) == kNoMatch) {
                started.push_back(op);
            } else {
                const auto together = matches.arrive(op);
                started.insert(started.end(), together.begin(), together.end());
            }
        }
        ready.clear();
        for (const std::uint32_t op : started) {
            start[op] = step;
            for (std::uint32_t i = left.first[op]; i < left.first[op + 1]; ++i)
                if (--left.count[left.released[i]] == 0) ready.push_back(left.released[i]);
        }
    }
    return start;
}

}  // namespace sluice
