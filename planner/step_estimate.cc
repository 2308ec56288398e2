#include "planner/step_estimate.h"

#include <algorithm>
#include <map>
#include <unordered_map>

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

// From the first rank of one stage to the first of the other; the others go the same way.
Seconds transfer_time(Bytes bytes, Rank from, Rank to, const Scenario& s) {
    const auto a = static_cast<std::int64_t>(index(unfolded_rank(from, 0, s)));
    const auto b = static_cast<std::int64_t>(index(unfolded_rank(to, 0, s)));
    const Cluster& c = s.cluster;
    if (!across_nodes(s, a, b))
        return c.nvlink.bandwidth.value > 0 ? c.nvlink.latency + bytes / c.nvlink.bandwidth
                                            : c.pcie.latency + bytes / std::min(shared_d2h(c), shared_h2d(c));
    const auto sharers = static_cast<double>((c.gpus_per_node + c.network.nics - 1) / c.network.nics);
    return c.network.latency + bytes / (c.network.bandwidth / sharers);
}

// The ranks that a folded group stands for; where it becomes several groups, those of the first.
std::vector<Rank> unfolded_members(GroupId group, const FoldedStep& step, const Scenario& s) {
    const std::vector<std::size_t> copies = copies_of_group(step.group_roles[index(group)], 0, s);
    std::vector<Rank> members;
    for (const Rank folded : step.schedule.groups[index(group)].members)
        for (const std::size_t copy : copies) members.push_back(unfolded_rank(folded, copy, s));
    return members;
}

// Data-parallel groups of all shards on a node talk at the same time: how many of their rings an adapter carries.
double rings_of_adapter(GroupRole role, std::size_t rails, const Scenario& s) {
    if (role != GroupRole::kDataParallel || s.cluster.network.nics == 0) return 1;
    const std::int64_t groups = std::min(s.policy.sp, s.cluster.gpus_per_node);
    return std::max(1.0, static_cast<double>(groups * static_cast<std::int64_t>(rails)) /
                             static_cast<double>(s.cluster.network.nics));
}

// What the time of a group's collectives depends on besides their work.
struct GroupReach {
    std::size_t members = 0;
    bool across = false;  // nodes
    std::size_t rails = 1;
    double rings = 1;  // that share an adapter
};

GroupReach reach_of(GroupId group, const FoldedStep& step, const Scenario& s) {
    const std::vector<Rank> members = unfolded_members(group, step, s);
    GroupReach reach;
    reach.members = members.size();
    reach.across = across_nodes(s, static_cast<std::int64_t>(index(members.front())),
                                static_cast<std::int64_t>(index(members.back())));
    if (!reach.across) return reach;
    reach.rails = rails_of(members, s.cluster).count;
    reach.rings = rings_of_adapter(step.group_roles[index(group)], reach.rails, s);
    return reach;
}

Seconds collective_op_time(const Collective& work, const GroupReach& reach, const Scenario& s) {
    const Seconds alone = collective_time(work, reach.members, reach.across, s.calibration, reach.rails);
    if (reach.rings == 1) return alone;
    const Seconds latency = collective_latency(work, reach.members, s.calibration);
    return latency + (alone - latency) * reach.rings;
}

// Times of compute ops: stages do the same work on the same subsequence, which is priced once.
class ComputeTimes {
public:
    explicit ComputeTimes(const Calibration& calibration) : calibration_(calibration) {}

    Seconds of(const Compute& work) {
        std::vector<Known>& alike = known_[key(work)];
        for (const Known& known : alike)
            if (*known.work == work) return known.time;
        alike.push_back({&work, compute_time(work, calibration_)});
        return alike.back().time;
    }

private:
    struct Known {
        const Compute* work;
        Seconds time;
    };

    static std::uint64_t key(const Compute& work) {
        std::uint64_t hash = work.kernels.size();
        const auto mix = [&](auto... values) {
            ((hash = (hash ^ static_cast<std::uint64_t>(values)) * 0x9E3779B97F4A7C15U), ...);
        };
        struct Mix {
            decltype(mix)& add;
            void operator()(const Gemm& g) const { add(g.m, g.n, g.k); }
            void operator()(const Attention& a) const { add(a.queries, a.keys, a.heads); }
            void operator()(const Pointwise& p) const { add(p.traffic.value); }
        };
        for (const Kernel& kernel : work.kernels) {
            mix(kernel.count);
            std::visit(Mix{mix}, kernel.shape);
        }
        return hash;
    }

    const Calibration& calibration_;
    std::unordered_map<std::uint64_t, std::vector<Known>> known_;  // never walked
};

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
          lane_end_(programs_.size()),
          compute_times_(scenario.calibration) {
        for (const Op& op : step.schedule.ops) programs_[index(op.rank)].push_back(op.id);
        for (const Group& group : step.schedule.groups) reaches_.push_back(reach_of(group.id, step, scenario));
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

    // op_time(), of which what many ops have in common is asked once.
    Seconds time_of(const Op& op) {
        if (const auto* work = std::get_if<Compute>(&op.work)) return compute_times_.of(*work);
        if (const auto* work = std::get_if<Collective>(&op.work))
            return collective_op_time(*work, reaches_[index(work->group)], scenario_);
        return op_time(op, step_, scenario_);
    }

    void finish(const Op& op, Seconds start) {
        const Seconds time = time_of(op);
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
    ComputeTimes compute_times_;
    std::vector<GroupReach> reaches_;  // by group
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
        Seconds operator()(const Collective& work) const {
            return collective_op_time(work, reach_of(work.group, step, s), s);
        }
    };
    return std::visit(Time{op, step, s}, op.work);
}

StepEstimate estimate_step(const FoldedStep& step, const Scenario& scenario) { return Walk(step, scenario).run(); }

}  // namespace sluice
