#include "planner/step_estimate.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "models/collective_cost.h"
#include "models/copy_cost.h"
#include "models/kernel_cost.h"
#include "models/rails.h"
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

// The ranks that a folded group stands for; of groups that there is one of per shard, those of shard 0.
std::vector<Rank> unfolded_members(GroupId group, const FoldedStep& step, const Scenario& s) {
    const auto sp = static_cast<std::size_t>(s.policy.sp);
    const std::size_t shards = step.group_roles[index(group)] == GroupRole::kSameShard ? 1 : sp;
    std::vector<Rank> members;
    for (const Rank folded : step.schedule.groups[index(group)].members)
        for (std::size_t t = 0; t < shards; ++t) members.push_back(id_at<Rank>(index(folded) * sp + t));
    return members;
}

Seconds collective_op_time(const Collective& work, const FoldedStep& step, const Scenario& s) {
    const std::vector<Rank> members = unfolded_members(work.group, step, s);
    const bool across = across_nodes(s, static_cast<std::int64_t>(index(members.front())),
                                     static_cast<std::int64_t>(index(members.back())));
    const std::size_t rails = across ? rails_of(members, s.cluster).count : 1;
    return collective_time(work, members.size(), across, s.calibration, rails);
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
        Seconds operator()(const Collective& work) const { return collective_op_time(work, step, s); }
    };
    return std::visit(Time{op, step, s}, op.work);
}

StepEstimate estimate_step(const FoldedStep& step, const Scenario& scenario) { return Walk(step, scenario).run(); }

}  // namespace sluice
