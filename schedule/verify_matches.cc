// Rule 3 of verify(): who meets whom, and does everybody come?
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "schedule/describe.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

class Matcher {
public:
    Matcher(const Schedule& schedule, const LaneIndex& lanes, Diagnostics& found)
        : schedule_(schedule), lanes_(lanes), found_(found), next_(schedule.ops.size()) {
        for (std::size_t i = 0; i < next_.size(); ++i) next_[i] = id_at<OpId>(i);
    }

    std::vector<OpId> run() {
        for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
            const Rank rank = id_at<Rank>(r);
            for (std::uint32_t l = 0; l < lanes_.lane_count(rank); ++l) {
                const Lane lane = lanes_.lane_at(rank, l);
                if (lane.kind == LaneKind::kSend) match_sends(rank, lane.peer, lanes_.ops(rank, l));
                if (lane.kind == LaneKind::kReceive) find_lonely_receives(rank, lane.peer, lanes_.ops(rank, l));
            }
        }
        match_collectives();
        return std::move(next_);
    }

private:
    const Op& op(OpId id) const { return schedule_.ops[index(id)]; }

    void say(Rule rule, OpId id, std::string message) {
        report(found_, rule, id, kNoBuffer, describe(op(id)) + std::move(message));
    }

    std::span<const OpId> ops_of(Rank rank, Lane lane) const {
        const auto number = lanes_.find(rank, lane);
        return number ? lanes_.ops(rank, *number) : std::span<const OpId>{};
    }

    void match_sends(Rank from, Rank to, std::span<const OpId> sends) {
        const auto receives = ops_of(to, {LaneKind::kReceive, from});
        bool differs = false;  // one transfer out of step puts all later ones out of step
        for (std::size_t k = 0; k < sends.size(); ++k) {
            if (k >= receives.size()) {
                say(Rule::kSendWithoutReceive, sends[k],
                    fmt::format(" is send {} from rank {} to rank {}, expected as many receives, got {}", k,
                                index(from), index(to), receives.size()));
                continue;
            }
            join(sends[k], receives[k]);
            const Bytes sent = std::get<Send>(op(sends[k]).work).bytes;
            const Bytes received = std::get<Receive>(op(receives[k]).work).bytes;
            if (sent == received || std::exchange(differs, true)) continue;
            say(Rule::kTransferBytes, receives[k],
                fmt::format(" receives {} B, expected the {} B sent by {}", received.value, sent.value,
                            describe(op(sends[k]))));
        }
    }

    void find_lonely_receives(Rank to, Rank from, std::span<const OpId> receives) {
        const auto sends = ops_of(from, {LaneKind::kSend, to});
        for (std::size_t k = sends.size(); k < receives.size(); ++k)
            say(Rule::kReceiveWithoutSend, receives[k],
                fmt::format(" is receive {} on rank {} from rank {}, expected as many sends, got {}", k, index(to),
                            index(from), sends.size()));
    }

    void match_collectives() {
        const auto by_group = collectives_by_group();
        for (std::size_t g = 0; g < by_group.size(); ++g) {
            const std::vector<std::vector<OpId>>& by_member = by_group[g];
            const auto longest = std::max_element(by_member.begin(), by_member.end(),
                                                  [](const auto& a, const auto& b) { return a.size() < b.size(); });
            if (longest == by_member.end() || longest->empty()) continue;
            for (std::size_t m = 0; m < by_member.size(); ++m) {
                const std::vector<OpId>& own = by_member[m];
                if (own.size() < longest->size())
                    report_missing(schedule_.groups[g].members[m], own.size(), (*longest)[own.size()]);
                compare(by_member.front(), own);
                if (&own == &*longest) continue;
                for (std::size_t k = 0; k < own.size(); ++k) join((*longest)[k], own[k]);
            }
        }
    }

    // [group][member][k]
    std::vector<std::vector<std::vector<OpId>>> collectives_by_group() const {
        std::vector<std::vector<std::vector<OpId>>> result(schedule_.groups.size());
        std::vector<std::vector<std::pair<Rank, std::size_t>>> members(schedule_.groups.size());  // sorted by rank
        for (const Group& group : schedule_.groups) {
            result[index(group.id)].resize(group.members.size());
            auto& own = members[index(group.id)];
            for (std::size_t m = 0; m < group.members.size(); ++m) own.emplace_back(group.members[m], m);
            std::sort(own.begin(), own.end());
        }
        for (const Op& each : schedule_.ops) {
            const auto* collective = std::get_if<Collective>(&each.work);
            if (collective == nullptr) continue;
            const auto& own = members[index(collective->group)];
            const auto member = std::lower_bound(own.begin(), own.end(), std::pair{each.rank, std::size_t{0}});
            result[index(collective->group)][member->second].push_back(each.id);
        }
        return result;
    }

    void report_missing(Rank member, std::size_t count, OpId waiting) {
        say(Rule::kCollectiveMissing, waiting,
            fmt::format(" is collective {} of group {}, expected one on every member, but rank {} has only {}", count,
                        index(std::get<Collective>(op(waiting).work).group), index(member), count));
    }

    // The first difference puts everything after it out of step.
    void compare(const std::vector<OpId>& first, const std::vector<OpId>& own) {
        for (std::size_t k = 0; k < std::min(first.size(), own.size()); ++k) {
            const Collective& expected = std::get<Collective>(op(first[k]).work);
            const Collective& got = std::get<Collective>(op(own[k]).work);
            if (got == expected) continue;
            say(Rule::kCollectiveMismatch, own[k],
                fmt::format(" runs {} as collective {} of group {}, expected {} as in {}", text(got), k,
                            index(got.group), text(expected), describe(op(first[k]))));
            return;
        }
    }

    static std::string text(const Collective& c) {
        return fmt::format("{} of {} B, {} calls, root {}", name(c.kind), c.bytes.value, c.calls, c.root);
    }

    // Splices two rings into one. Requires: they are different rings.
    void join(OpId a, OpId b) { std::swap(next_[index(a)], next_[index(b)]); }

    const Schedule& schedule_;
    const LaneIndex& lanes_;
    Diagnostics& found_;
    std::vector<OpId> next_;
};

}  // namespace

std::vector<OpId> match_partners(const Schedule& schedule, const LaneIndex& lanes, Diagnostics& found) {
    return Matcher(schedule, lanes, found).run();
}

}  // namespace sluice
