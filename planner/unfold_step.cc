#include "planner/unfold_step.h"

#include "base/error.h"

namespace sluice {
namespace {

struct Range {
    std::size_t first = 0, count = 0;
};

// Where each rank's items are; fold_step() and offload_units() list them rank by rank.
template <class Item>
std::vector<Range> ranges_by_rank(const std::vector<Item>& items, std::size_t ranks) {
    std::vector<Range> ranges(ranks);
    for (std::size_t i = 0; i < items.size(); ++i) {
        Range& range = ranges[index(items[i].rank)];
        if (range.count == 0) range.first = i;
        SLUICE_CHECK(range.first + range.count == i, "a folded step lists its ranks one after another");
        ++range.count;
    }
    return ranges;
}

class Unfolding {
public:
    Unfolding(const FoldedStep& step, const Scenario& scenario)
        : from_(step.schedule),
          roles_(step.group_roles),
          scenario_(scenario),
          copies_(static_cast<std::size_t>(scenario.ranks_of_stage())),
          ops_(ranges_by_rank(from_.ops, from_.ranks.size())),
          buffers_(ranges_by_rank(from_.buffers, from_.ranks.size())) {
        add_places();
        add_groups();
    }

    Schedule run() && {
        out_.buffers.reserve(from_.buffers.size() * copies_);
        out_.ops.reserve(from_.ops.size() * copies_);
        for (std::size_t s = 0; s < from_.ranks.size(); ++s)
            for (std::size_t c = 0; c < copies_; ++c) {
                for (std::size_t k = 0; k < buffers_[s].count; ++k) add_buffer(from_.buffers[buffers_[s].first + k], c);
                for (std::size_t k = 0; k < ops_[s].count; ++k) add_op(from_.ops[ops_[s].first + k], s, c);
            }
        return std::move(out_);
    }

private:
    void add_places() {
        const std::size_t ranks = from_.ranks.size() * copies_;
        const auto per_node = static_cast<std::size_t>(scenario_.cluster.gpus_per_node);
        for (std::size_t node = 0; node * per_node < ranks; ++node)
            out_.hosts.push_back({scenario_.cluster.host.usable()});
        for (std::size_t r = 0; r < ranks; ++r)
            out_.ranks.push_back({id_at<HostId>(r / per_node), from_.ranks[r / copies_].device_capacity});
    }

    Rank rank_of(Rank folded, std::size_t copy) const { return unfolded_rank(folded, copy, scenario_); }

    void add_groups() {
        for (std::size_t g = 0; g < from_.groups.size(); ++g) {
            group_base_.push_back(out_.groups.size());
            for (std::size_t instance = 0; instance < group_instances(roles_[g], scenario_); ++instance) {
                Group group{id_at<GroupId>(out_.groups.size()), {}};
                const std::vector<std::size_t> copies = copies_of_group(roles_[g], instance, scenario_);
                for (const Rank member : from_.groups[g].members)
                    for (const std::size_t copy : copies) group.members.push_back(rank_of(member, copy));
                out_.groups.push_back(std::move(group));
            }
        }
    }

    // Item i of folded rank s, copy c.
    template <class Id>
    Id copy_of(Id id, const Range& range, std::size_t c) const {
        return id_at<Id>(range.first * copies_ + c * range.count + (index(id) - range.first));
    }

    void add_buffer(const Buffer& folded, std::size_t c) {
        Buffer buffer = folded;
        buffer.id = id_at<BufferId>(out_.buffers.size());
        buffer.rank = rank_of(folded.rank, c);
        out_.buffers.push_back(std::move(buffer));
    }

    void add_op(const Op& folded, std::size_t s, std::size_t c) {
        Op op = folded;
        op.id = id_at<OpId>(out_.ops.size());
        op.rank = rank_of(folded.rank, c);
        op.tag.sequence += first_sequence(c);
        if (op.lane.peer != kNoRank) op.lane.peer = rank_of(op.lane.peer, c);
        for (OpId& id : op.after) id = copy_of(id, ops_[s], c);
        for (Access& access : op.accesses) access.buffer = copy_of(access.buffer, buffers_[s], c);
        if (auto* collective = std::get_if<Collective>(&op.work)) {
            const std::size_t g = index(collective->group);
            collective->group = id_at<GroupId>(group_base_[g] + group_instance_of(roles_[g], c, scenario_));
        }
        out_.ops.push_back(std::move(op));
    }

    // Replica d runs the d-th part of the batch. The optimizer runs once: its ops have the replica's first sequence.
    std::int32_t first_sequence(std::size_t c) const {
        const std::size_t replica = c / static_cast<std::size_t>(scenario_.policy.sp);
        return static_cast<std::int32_t>(replica) * static_cast<std::int32_t>(scenario_.sequences_of_replica());
    }

    const Schedule& from_;
    const std::vector<GroupRole>& roles_;
    const Scenario& scenario_;
    std::size_t copies_;                // of every folded rank: sp x dp
    std::vector<Range> ops_, buffers_;  // by folded rank
    std::vector<std::size_t> group_base_;
    Schedule out_;
};

}  // namespace

Schedule unfold_step(const FoldedStep& step, const Scenario& scenario) { return Unfolding(step, scenario).run(); }

FoldedStep without_device_buffers(const FoldedStep& step) {
    const Schedule& from = step.schedule;
    FoldedStep result;
    result.group_roles = step.group_roles;
    Schedule& to = result.schedule;
    to.hosts = from.hosts, to.ranks = from.ranks, to.groups = from.groups;
    std::vector<BufferId> kept(from.buffers.size(), kNoBuffer);  // its id in the result
    for (const Buffer& buffer : from.buffers) {
        if (buffer.space == Space::kDevice) continue;
        kept[index(buffer.id)] = id_at<BufferId>(to.buffers.size());
        to.buffers.push_back(buffer);
        to.buffers.back().id = kept[index(buffer.id)];
    }
    to.ops.reserve(from.ops.size());
    for (const Op& op : from.ops) {
        Op& copy = to.ops.emplace_back(Op{op.id, op.rank, op.lane, op.work, op.after, {}, op.tag});
        for (Access access : op.accesses) {
            access.buffer = kept[index(access.buffer)];
            if (access.buffer != kNoBuffer) copy.accesses.push_back(access);
        }
    }
    return result;
}

}  // namespace sluice
