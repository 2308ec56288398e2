// Deadlocks: does lane order, `after` and matches together make an op wait for itself?
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "schedule/describe.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxSteps = 16;  // of a cycle in a message

// Ops that meet are one node: it starts when all of them are ready. A node is named by its smallest op.
class CycleCheck {
public:
    CycleCheck(const Schedule& schedule, const LaneIndex& lanes, std::span<const OpId> partners, Diagnostics& found)
        : schedule_(schedule), lanes_(lanes), partners_(partners), found_(found), node_(schedule.ops.size(), kNoOp) {
        for (std::size_t i = 0; i < node_.size(); ++i)
            if (node_[i] == kNoOp)
                for_each_member(id_at<OpId>(i), [&](OpId member) { node_[index(member)] = id_at<OpId>(i); });
    }

    void run() {
        if (finish_all() == schedule_.ops.size()) return;
        visit_blocked();
    }

private:
    // One step backwards along a cycle: `waiting`, of the node just entered, waits for `cause`.
    struct Step {
        OpId waiting, cause;
    };

    template <class Visit>
    void for_each_member(OpId op, const Visit& visit) const {
        OpId member = op;
        do {
            visit(member);
            member = partners_[index(member)];
        } while (member != op);
    }

    OpId lane_predecessor(OpId op) const {
        const std::uint32_t place = lanes_.place(op);
        return place == 1 ? kNoOp : lanes_.ops(schedule_.ops[index(op)].rank, lanes_.lane(op))[place - 2];
    }

    OpId lane_successor(OpId op) const {
        const auto ops = lanes_.ops(schedule_.ops[index(op)].rank, lanes_.lane(op));
        return lanes_.place(op) == ops.size() ? kNoOp : ops[lanes_.place(op)];
    }

    // Runs the schedule without a clock; returns how many ops end. Leaves the causes still missing in waits_.
    std::size_t finish_all() {
        index_waiters();
        std::vector<OpId> ready;
        for (std::size_t i = node_.size(); i-- > 0;)
            if (node_[i] == id_at<OpId>(i) && waits_[i] == 0) ready.push_back(node_[i]);
        std::size_t ended = 0;
        const auto release = [&](OpId op) {
            const OpId node = node_[index(op)];
            if (--waits_[index(node)] == 0) ready.push_back(node);
        };
        while (!ready.empty()) {
            const OpId node = ready.back();
            ready.pop_back();
            for_each_member(node, [&](OpId member) {
                ++ended;
                if (const OpId next = lane_successor(member); next != kNoOp) release(next);
                for (std::uint64_t w = first_waiter_[index(member)]; w < first_waiter_[index(member) + 1]; ++w)
                    release(waiters_[w]);
            });
        }
        return ended;
    }

    // Who has an op in its `after`; and how many causes each node waits for.
    void index_waiters() {
        const std::size_t count = schedule_.ops.size();
        waits_.assign(count, 0);
        first_waiter_.assign(count + 1, 0);
        for (const Op& op : schedule_.ops) {
            std::uint64_t& waits = waits_[index(node_[index(op.id)])];
            waits += op.after.size() + (lane_predecessor(op.id) == kNoOp ? 0U : 1U);
            for (const OpId cause : op.after) ++first_waiter_[index(cause) + 1];
        }
        for (std::size_t i = 0; i < count; ++i) first_waiter_[i + 1] += first_waiter_[i];
        waiters_.resize(first_waiter_.back());
        std::vector<std::uint64_t> next(first_waiter_.begin(), first_waiter_.end() - 1);
        for (const Op& op : schedule_.ops)
            for (const OpId cause : op.after) waiters_[next[index(cause)]++] = op.id;
    }

    bool blocked(OpId op) const { return waits_[index(node_[index(op)])] != 0; }

    // The first reason why a blocked node is blocked; there is always one.
    Step first_blocker(OpId node) const {
        Step result{kNoOp, kNoOp};
        const auto consider = [&](OpId waiting, OpId cause) {
            if (result.cause == kNoOp && cause != kNoOp && blocked(cause)) result = {waiting, cause};
        };
        for_each_member(node, [&](OpId member) {
            consider(member, lane_predecessor(member));
            for (const OpId cause : schedule_.ops[index(member)].after) consider(member, cause);
        });
        return result;
    }

    // Following first blockers from any blocked node ends in a cycle; each cycle is reported once.
    void visit_blocked() {
        std::vector<OpId> seen_from(node_.size(), kNoOp);  // by node: where the walk that came here first began
        for (std::size_t i = 0; i < node_.size(); ++i) {
            const OpId start = id_at<OpId>(i);
            if (node_[i] != start || !blocked(start)) continue;
            std::vector<Step> walk;
            OpId node = start;
            while (seen_from[index(node)] == kNoOp) {
                seen_from[index(node)] = start;
                walk.push_back(first_blocker(node));
                node = node_[index(walk.back().cause)];
            }
            if (seen_from[index(node)] != start) continue;
            const auto entry = std::find_if(walk.begin(), walk.end(),
                                            [&](const Step& step) { return node_[index(step.waiting)] == node; });
            report_cycle({entry, walk.end()});
        }
    }

    void report_cycle(std::vector<Step> steps) {
        std::rotate(steps.begin(),
                    std::min_element(steps.begin(), steps.end(),
                                     [](const Step& a, const Step& b) { return a.waiting < b.waiting; }),
                    steps.end());
        const auto named = [&](OpId op) { return describe(schedule_.ops[index(op)]); };
        std::string message = named(steps.front().waiting);
        for (std::size_t i = 0; i < steps.size(); ++i) {
            if (i == kMaxSteps) {
                message += fmt::format(", and so on through {} more waits back to it", steps.size() - i);
                break;
            }
            const OpId next = steps[(i + 1) % steps.size()].waiting;
            const bool lane = lane_predecessor(steps[i].waiting) == steps[i].cause;
            message +=
                fmt::format("{} waits {} {}", i == 0 ? "" : ", which", lane ? "in its lane for" : "by its after for",
                            i + 1 == steps.size() && next == steps[i].cause ? "it" : named(steps[i].cause));
            if (next != steps[i].cause)
                message += ", which meets " + (i + 1 == steps.size() ? std::string("it") : named(next));
        }
        report(found_, Rule::kCycle, steps.front().waiting, kNoBuffer, message + ": expected no op to wait for itself");
    }

    const Schedule& schedule_;
    const LaneIndex& lanes_;
    std::span<const OpId> partners_;
    Diagnostics& found_;
    std::vector<OpId> node_;                   // by op
    std::vector<std::uint64_t> waits_;         // by node: causes that have not ended
    std::vector<std::uint64_t> first_waiter_;  // by op, one more at the end: index into waiters_
    std::vector<OpId> waiters_;
};

}  // namespace

void check_cycles(const Schedule& schedule, const LaneIndex& lanes, std::span<const OpId> partners,
                  Diagnostics& found) {
    CycleCheck(schedule, lanes, partners, found).run();
}

}  // namespace sluice
