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
          sp_(static_cast<std::size_t>(scenario.policy.sp)),
          ops_(ranges_by_rank(from_.ops, from_.ranks.size())),
          buffers_(ranges_by_rank(from_.buffers, from_.ranks.size())) {
        add_places(scenario);
        add_groups();
    }

    Schedule run() && {
        out_.buffers.reserve(from_.buffers.size() * sp_);
        out_.ops.reserve(from_.ops.size() * sp_);
        for (std::size_t s = 0; s < from_.ranks.size(); ++s)
            for (std::size_t t = 0; t < sp_; ++t) {
                for (std::size_t k = 0; k < buffers_[s].count; ++k) add_buffer(from_.buffers[buffers_[s].first + k], t);
                for (std::size_t k = 0; k < ops_[s].count; ++k) add_op(from_.ops[ops_[s].first + k], s, t);
            }
        return std::move(out_);
    }

private:
    void add_places(const Scenario& scenario) {
        const std::size_t ranks = from_.ranks.size() * sp_;
        const auto per_node = static_cast<std::size_t>(scenario.cluster.gpus_per_node);
        for (std::size_t node = 0; node * per_node < ranks; ++node)
            out_.hosts.push_back({scenario.cluster.host.usable()});
        for (std::size_t r = 0; r < ranks; ++r)
            out_.ranks.push_back({id_at<HostId>(r / per_node), from_.ranks[r / sp_].device_capacity});
    }

    Rank rank_of(Rank folded, std::size_t shard) const { return id_at<Rank>(index(folded) * sp_ + shard); }

    void add_groups() {
        for (std::size_t g = 0; g < from_.groups.size(); ++g) {
            group_base_.push_back(out_.groups.size());
            const bool one_per_shard = roles_[g] == GroupRole::kSameShard;
            for (std::size_t copy = 0; copy < (one_per_shard ? sp_ : 1); ++copy) {
                Group group{id_at<GroupId>(out_.groups.size()), {}};
                for (const Rank member : from_.groups[g].members)
                    for (std::size_t t = 0; t < (one_per_shard ? 1 : sp_); ++t)
                        group.members.push_back(rank_of(member, one_per_shard ? copy : t));
                out_.groups.push_back(std::move(group));
            }
        }
    }

    // Item i of folded rank s, copy t.
    template <class Id>
    Id copy_of(Id id, const Range& range, std::size_t t) const {
        return id_at<Id>(range.first * sp_ + t * range.count + (index(id) - range.first));
    }

    void add_buffer(const Buffer& folded, std::size_t t) {
        Buffer buffer = folded;
        buffer.id = id_at<BufferId>(out_.buffers.size());
        buffer.rank = rank_of(folded.rank, t);
        out_.buffers.push_back(std::move(buffer));
    }

    void add_op(const Op& folded, std::size_t s, std::size_t t) {
        Op op = folded;
        op.id = id_at<OpId>(out_.ops.size());
        op.rank = rank_of(folded.rank, t);
        if (op.lane.peer != kNoRank) op.lane.peer = rank_of(op.lane.peer, t);
        for (OpId& id : op.after) id = copy_of(id, ops_[s], t);
        for (Access& access : op.accesses) access.buffer = copy_of(access.buffer, buffers_[s], t);
        if (auto* collective = std::get_if<Collective>(&op.work)) {
            const std::size_t g = index(collective->group);
            const std::size_t copy = roles_[g] == GroupRole::kSameShard ? t : 0;
            collective->group = id_at<GroupId>(group_base_[g] + copy);
        }
        out_.ops.push_back(std::move(op));
    }

    const Schedule& from_;
    const std::vector<GroupRole>& roles_;
    std::size_t sp_;
    std::vector<Range> ops_, buffers_;  // by folded rank
    std::vector<std::size_t> group_base_;
    Schedule out_;
};

}  // namespace

Schedule unfold_step(const FoldedStep& step, const Scenario& scenario) { return Unfolding(step, scenario).run(); }

}  // namespace sluice
