#include "schedule/stuck_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/lane_index.h"

namespace sluice {
namespace {

class StuckReport {
public:
    StuckReport(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches, std::span<const OpRun> runs)
        : schedule_(schedule), graph_(graph), matches_(matches), runs_(runs) {}

    Diagnostic at_head(OpId id) const {
        std::vector<std::string> lacking = waits(id);
        if (lacking.empty()) lacking.emplace_back("nothing that the schedule names");
        return {"stuck", id, kNoBuffer,
                fmt::format("{} never started; it waits for {}", describe(id), fmt::join(lacking, ", "))};
    }

    bool ended(OpId id) const { return runs_[index(id)].end >= 0; }

private:
    std::string describe(OpId id) const {
        const Op& op = schedule_.ops[index(id)];
        std::string text = fmt::format("op {} r{} {}", index(id), index(op.rank), name(op.lane.kind));
        if (op.lane.peer != kNoRank) text += fmt::format(" r{}", index(op.lane.peer));
        return text;
    }

    // Everything that an op at the head of its lane lacks.
    std::vector<std::string> waits(OpId id) const {
        std::vector<std::string> all;
        std::vector<OpId> after = schedule_.ops[index(id)].after;
        std::sort(after.begin(), after.end());
        after.erase(std::unique(after.begin(), after.end()), after.end());
        for (const OpId a : after) {
            if (!ended(a)) all.push_back(fmt::format("{} (after)", describe(a)));
        }
        if (matches_.of(id) != kNoMatch) add_partners(id, all);
        return all;
    }

    void add_partners(OpId id, std::vector<std::string>& all) const {
        const std::span<const OpId> members = matches_.members(matches_.of(id));
        for (std::size_t slot = 0; slot < members.size(); ++slot) {
            const OpId partner = members[slot];
            if (partner == kNoOp) {
                all.push_back(missing(schedule_.ops[index(id)], slot));
            } else if (partner != id && !is_ready(partner)) {
                all.push_back(fmt::format("{} (partner, not ready)", describe(partner)));
            }
        }
    }

    bool is_ready(OpId id) const {
        const OpId before = graph_.lane_predecessor(id);
        const std::vector<OpId>& after = schedule_.ops[index(id)].after;
        return (before == kNoOp || ended(before)) &&
               std::all_of(after.begin(), after.end(), [&](OpId a) { return ended(a); });
    }

    std::string missing(const Op& op, std::size_t slot) const {
        if (op.lane.kind == LaneKind::kSend) {
            return fmt::format("a receive on r{} from r{} that the schedule lacks", index(op.lane.peer),
                               index(op.rank));
        }
        if (op.lane.kind == LaneKind::kReceive) {
            return fmt::format("a send on r{} to r{} that the schedule lacks", index(op.lane.peer), index(op.rank));
        }
        const GroupId group = std::get<Collective>(op.work).group;
        const std::vector<Rank>& members = schedule_.groups[index(group)].members;
        if (std::find(members.begin(), members.end(), op.rank) == members.end()) {
            return fmt::format("group g{} to have r{} as a member", index(group), index(op.rank));
        }
        return fmt::format("a collective of group g{} on r{} that the schedule lacks", index(group),
                           index(members[slot]));
    }

    const Schedule& schedule_;
    const OpGraph& graph_;
    const OpMatches& matches_;
    std::span<const OpRun> runs_;
};

}  // namespace

Diagnostics stuck_ops(const Schedule& schedule, const OpGraph& graph, const OpMatches& matches,
                      std::span<const OpRun> runs) {
    const auto ended = [](const OpRun& run) { return run.end >= 0; };
    if (std::all_of(runs.begin(), runs.end(), ended)) return {};
    const StuckReport report(schedule, graph, matches, runs);
    const LaneIndex lanes(schedule);
    Diagnostics all;
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
        for (std::uint32_t lane = 0; lane < lanes.lane_count(id_at<Rank>(r)); ++lane) {
            const std::span<const OpId> ops = lanes.ops(id_at<Rank>(r), lane);
            const auto head = std::find_if(ops.begin(), ops.end(), [&](OpId id) { return !report.ended(id); });
            if (head != ops.end()) all.push_back(report.at_head(*head));
        }
    }
    return all;
}

}  // namespace sluice
