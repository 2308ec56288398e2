#include "planner/step_estimate.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "models/collective_cost.h"
#include "models/copy_cost.h"
#include "models/kernel_cost.h"
#include "schedule/op_matches.h"

namespace sluice {
namespace {

bool across_nodes(const Scenario& s, std::int64_t first_rank, std::int64_t last_rank) {
    return first_rank / s.cluster.gpus_per_node != last_rank / s.cluster.gpus_per_node;
}

// From shard 0 of one stage to shard 0 of the other; the others go the same way.
Seconds transfer_time(Bytes bytes, Rank from, Rank to, const Scenario& s) {
    const auto sp = s.policy.sp;
    const auto a = static_cast<std::int64_t>(index(from)) * sp, b = static_cast<std::int64_t>(index(to)) * sp;
    const Cluster& c = s.cluster;
    if (!across_nodes(s, a, b))
        return c.nvlink.bandwidth.value > 0 ? c.nvlink.latency + bytes / c.nvlink.bandwidth
                                            : c.pcie.latency + bytes / std::min(shared_d2h(c), shared_h2d(c));
    const auto sharers = static_cast<double>((c.gpus_per_node + c.network.nics - 1) / c.network.nics);
    return c.network.latency + bytes / (c.network.bandwidth / sharers);
}

Seconds collective_op_time(const Collective& work, Rank rank, const FoldedStep& step, const Scenario& s) {
    const std::vector<Rank>& members = step.schedule.groups[index(work.group)].members;
    const std::int64_t sp = s.policy.sp;
    std::int64_t first = static_cast<std::int64_t>(index(rank)) * sp, last = first + sp - 1, count = sp;
    if (step.group_roles[index(work.group)] != GroupRole::kSequenceParallel) {
        first = static_cast<std::int64_t>(index(members.front())) * sp;
        last = static_cast<std::int64_t>(index(members.back())) * sp + sp - 1;
        count = static_cast<std::int64_t>(members.size()) *
                (step.group_roles[index(work.group)] == GroupRole::kEveryRank ? sp : 1);
    }
    return collective_time(work, static_cast<std::size_t>(count), across_nodes(s, first, last), s.calibration);
}

// Walks every rank's program op by op; a rank waits at a match until its partners are there.
class Walk {
public:
    Walk(const FoldedStep& step, const Scenario& scenario)
        : step_(step),
          scenario_(scenario),
          matches_(step.schedule),
          end_(step.schedule.ops.size()),
          arrived_(matches_.size(), 0),
          start_(matches_.size()),
          programs_(step.schedule.ranks.size()),
          next_(programs_.size(), 0),
          lane_end_(programs_.size()) {
        for (const Op& op : step.schedule.ops) programs_[index(op.rank)].push_back(op.id);
    }

    StepEstimate run() && {
        result_.compute.resize(programs_.size());
        std::vector<std::size_t> ready;
        for (std::size_t r = programs_.size(); r-- > 0;) ready.push_back(r);
        while (!ready.empty()) {
            const std::size_t rank = ready.back();
            ready.pop_back();
            advance(rank, ready);
        }
        for (std::size_t r = 0; r < programs_.size(); ++r)
            SLUICE_CHECK(next_[r] == programs_[r].size(), "folded programs run to their end");
        return std::move(result_);
    }

private:
    // Runs ops of a rank until it has to wait; ranks that it set free are added to `ready`.
    void advance(std::size_t rank, std::vector<std::size_t>& ready) {
        while (next_[rank] < programs_[rank].size()) {
            const Op& op = step_.schedule.ops[index(programs_[rank][next_[rank]])];
            const Seconds start = ready_time(op);
            const std::uint32_t match = matches_.of(op.id);
            if (match == kNoMatch) {
                finish(op, start);
                continue;
            }
            const std::span<const OpId> members = matches_.members(match);
            start_[match] = std::max(start_[match], start);
            if (++arrived_[match] < members.size()) return;
            for (const OpId partner : members) {
                const Op& other = step_.schedule.ops[index(partner)];
                finish(other, start_[match]);
                if (index(other.rank) != rank) ready.push_back(index(other.rank));
            }
        }
    }

    Seconds ready_time(const Op& op) {
        Seconds start = lane_end_[index(op.rank)][op.lane];
        for (const OpId before : op.after) start = std::max(start, end_[index(before)]);
        return start;
    }

    void finish(const Op& op, Seconds start) {
        const Seconds time = op_time(op, step_, scenario_);
        const Seconds end = start + time;
        end_[index(op.id)] = lane_end_[index(op.rank)][op.lane] = end;
        if (op.lane.kind == LaneKind::kCompute) result_.compute[index(op.rank)] += time;
        result_.step = std::max(result_.step, end);
        ++next_[index(op.rank)];
    }

    const FoldedStep& step_;
    const Scenario& scenario_;
    const OpMatches matches_;
    std::vector<Seconds> end_;          // by op
    std::vector<std::size_t> arrived_;  // partners that wait, by match
    std::vector<Seconds> start_;        // latest of them, by match
    std::vector<std::vector<OpId>> programs_;
    std::vector<std::size_t> next_;
    std::vector<std::map<Lane, Seconds>> lane_end_;
    StepEstimate result_;
};

}  // namespace

Seconds op_time(const Op& op, const FoldedStep& step, const Scenario& s) {
    struct Time {
        const Op& op;
        const FoldedStep& step;
        const Scenario& s;
        Seconds operator()(const Compute& work) const { return compute_time(work, s.calibration); }
        Seconds operator()(const Copy& work) const {
            const bool out = op.lane.kind == LaneKind::kCopyOut;
            return s.cluster.pcie.latency + work.bytes / (out ? shared_d2h(s.cluster) : shared_h2d(s.cluster));
        }
        Seconds operator()(const Send& work) const { return transfer_time(work.bytes, op.rank, op.lane.peer, s); }
        Seconds operator()(const Receive& work) const { return transfer_time(work.bytes, op.lane.peer, op.rank, s); }
        Seconds operator()(const Collective& work) const { return collective_op_time(work, op.rank, step, s); }
    };
    return std::visit(Time{op, step, s}, op.work);
}

StepEstimate estimate_step(const FoldedStep& step, const Scenario& scenario) { return Walk(step, scenario).run(); }

}  // namespace sluice
