#include "runtime/rank_program.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "base/error.h"
#include "schedule/happens_before.h"
#include "schedule/lane_index.h"
#include "schedule/topological_order.h"

namespace sluice {
namespace {

class WaitFinder {
public:
    WaitFinder(const Schedule& schedule, const HappensBefore& before) : schedule_(schedule), before_(before) {}

    // The events that `op` waits for: those of its `after` that neither its lane nor another of them implies. Sorted by
    // lane.
    const std::vector<LaneEvent>& of(OpId id) {
        const Op& op = schedule_.ops[index(id)];
        latest_.clear();
        for (const OpId earlier : op.after) keep_latest({lanes().lane(earlier), lanes().place(earlier)});
        waits_.clear();
        for (const LaneEvent& event : latest_)
            if (!implied_by_lane(id, event) && !implied_by_others(op.rank, event)) waits_.push_back(event);
        std::sort(waits_.begin(), waits_.end(), [](const auto& a, const auto& b) { return a.lane < b.lane; });
        return waits_;
    }

private:
    const LaneIndex& lanes() const { return before_.lanes(); }

    void keep_latest(const LaneEvent& event) {
        for (LaneEvent& known : latest_)
            if (known.lane == event.lane) {
                known.place = std::max(known.place, event.place);
                return;
            }
        latest_.push_back(event);
    }

    bool implied_by_lane(OpId id, const LaneEvent& event) const {
        const std::uint32_t lane = lanes().lane(id), place = lanes().place(id);
        if (event.lane == lane) return true;
        if (place == 1) return false;
        const OpId previous = lanes().ops(schedule_.ops[index(id)].rank, lane)[place - 2];
        return before_.ended(previous)[event.lane] >= event.place;
    }

    bool implied_by_others(Rank rank, const LaneEvent& event) const {
        return std::any_of(latest_.begin(), latest_.end(), [&](const LaneEvent& other) {
            return before_.ended(lanes().ops(rank, other.lane)[other.place - 1])[event.lane] >= event.place;
        });
    }

    const Schedule& schedule_;
    const HappensBefore& before_;
    std::vector<LaneEvent> latest_, waits_;
};

RankProgram empty_program(const LaneIndex& lanes, Rank rank) {
    RankProgram program;
    program.rank = rank;
    for (std::uint32_t lane = 0; lane < lanes.lane_count(rank); ++lane) {
        program.lanes.push_back(lanes.lane_at(rank, lane));
        program.lane_ops.push_back(static_cast<std::uint32_t>(lanes.ops(rank, lane).size()));
    }
    return program;
}

// The spans can be set only when the vector that they refer to has stopped growing.
void set_spans(RankProgram& program, const std::vector<std::size_t>& counts) {
    std::size_t first = 0;
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
        program.ops[i].waits = std::span(program.waits).subspan(first, counts[i]);
        first += counts[i];
    }
}

bool is_message(const Op& op) {
    return std::holds_alternative<Send>(op.work) || std::holds_alternative<Receive>(op.work) ||
           std::holds_alternative<Collective>(op.work);
}

// Requires: `receive` comes earlier in the program.
bool may_pass(const Schedule& schedule, const IssuedOp& receive, const IssuedOp& op) {
    if (is_message(schedule.ops[index(op.op)]) || op.at.lane == receive.at.lane) return false;
    return std::none_of(op.waits.begin(), op.waits.end(), [&](const LaneEvent& wait) {
        return wait.lane == receive.at.lane && wait.place >= receive.at.place;
    });
}

// A thread that comes to a message may have to wait until its partner's thread has come to it (threads that meet while
// they issue), which is as far ahead of its device as a stream's queue is long. What needs no such wait goes first. The
// order of a rank's messages stays, and with it whether programs fit together (issue_order.h).
void put_receives_off(const Schedule& schedule, std::vector<IssuedOp>& ops) {
    for (std::size_t i = ops.size(); i-- > 0;) {
        if (!std::holds_alternative<Receive>(schedule.ops[index(ops[i].op)].work)) continue;
        std::size_t to = i;
        while (to + 1 < ops.size() && may_pass(schedule, ops[i], ops[to + 1])) ++to;
        std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(i), ops.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                    ops.begin() + static_cast<std::ptrdiff_t>(to) + 1);
    }
}

}  // namespace

std::vector<RankProgram> rank_programs(const Schedule& schedule, std::span<const Rank> ranks) {
    LaneIndex lanes(schedule);
    const auto order = topological_order(schedule, lanes);
    if (!order)
        throw InputError("the schedule cannot be run: ops wait for each other; `sluice check` prints the cycle");
    HappensBefore before(schedule, std::move(lanes));
    for (const OpId op : *order) before.enter(schedule.ops[index(op)]);

    constexpr std::size_t kNotHere = std::numeric_limits<std::size_t>::max();
    std::vector<std::size_t> position(schedule.ranks.size(), kNotHere);
    std::vector<RankProgram> programs;
    for (const Rank rank : ranks) {
        position[index(rank)] = programs.size();
        programs.push_back(empty_program(before.lanes(), rank));
    }
    std::vector<std::vector<std::size_t>> counts(programs.size());
    WaitFinder finder(schedule, before);
    for (const OpId op : *order) {
        const std::size_t rank = position[index(schedule.ops[index(op)].rank)];
        if (rank == kNotHere) continue;
        const std::vector<LaneEvent>& waits = finder.of(op);
        programs[rank].ops.push_back({op, {before.lanes().lane(op), before.lanes().place(op)}, {}});
        programs[rank].waits.insert(programs[rank].waits.end(), waits.begin(), waits.end());
        counts[rank].push_back(waits.size());
    }
    for (std::size_t r = 0; r < programs.size(); ++r) {
        set_spans(programs[r], counts[r]);
        put_receives_off(schedule, programs[r].ops);
    }
    return programs;
}

}  // namespace sluice
