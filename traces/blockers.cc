#include "traces/blockers.h"

#include <algorithm>
#include <tuple>

namespace sluice {

Blockers::Blockers(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches,
                   std::span<const OpRun> runs)
    : schedule_(schedule), graph_(graph), matches_(matches), runs_(runs), last_ready_(matches.size(), kNoOp) {
    for (std::uint32_t m = 0; m < matches.size(); ++m) {
        double latest = -1;
        for (const OpId member : matches.members(m)) {
            const double at = ready(member);
            if (at > latest || (at == latest && member < last_ready_[m])) {
                latest = at;
                last_ready_[m] = member;
            }
        }
    }
}

double Blockers::ready(OpId id) const {
    const OpId before = graph_.lane_predecessor(id);
    double latest = before == kNoOp ? 0 : runs_[index(before)].end;
    for (const OpId after : schedule_.ops[index(id)].after) latest = std::max(latest, runs_[index(after)].end);
    return latest;
}

Blocker Blockers::of(OpId id) const {
    const std::uint32_t match = matches_.of(id);
    if (match == kNoMatch) return own(id);
    const OpId last = last_ready_[match];
    return ready(id) < ready(last) ? Blocker{last, Wait::kMatch} : own(id);
}

Blocker Blockers::own(OpId id) const {
    const double at = ready(id);
    Blocker best;
    const auto offer = [&](OpId candidate, Wait wait) {
        const auto rank = [](Wait w) { return w == Wait::kData ? 0 : w == Wait::kReuse ? 1 : 2; };
        if (best.op == kNoOp || std::tuple(rank(wait), candidate) < std::tuple(rank(best.wait), best.op)) {
            best = {candidate, wait};
        }
    };
    for (const OpId after : schedule_.ops[index(id)].after) {
        if (runs_[index(after)].end == at) offer(after, share_a_buffer(after, id) ? Wait::kData : Wait::kReuse);
    }
    const OpId before = graph_.lane_predecessor(id);
    if (before != kNoOp && runs_[index(before)].end == at) offer(before, Wait::kLane);
    return best;
}

bool Blockers::share_a_buffer(OpId a, OpId b) const {
    const std::vector<Access>& of_b = schedule_.ops[index(b)].accesses;
    for (const Access& access : schedule_.ops[index(a)].accesses) {
        const auto same = [&](const Access& other) { return other.buffer == access.buffer; };
        if (std::any_of(of_b.begin(), of_b.end(), same)) return true;
    }
    return false;
}

}  // namespace sluice
