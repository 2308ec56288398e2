#include "schedule/slice_rank.h"

#include <algorithm>

#include "schedule/op_matches.h"

namespace sluice {
namespace {

class Slicing {
public:
    Slicing(const Schedule& whole, Rank rank) : whole_(whole), rank_(rank), op_at_(whole.ops.size(), kNoOp) {
        out_.rank = rank;
        out_.schedule.hosts = whole.hosts, out_.schedule.ranks = whole.ranks;
    }

    RankSlice run() && {
        add_groups();
        add_buffers();
        number_ops();
        for (const OpId id : out_.op_of) add_op(whole_.ops[index(id)]);
        return std::move(out_);
    }

private:
    void add_groups() {
        group_at_.assign(whole_.groups.size(), GroupId{});
        for (const Group& group : whole_.groups) {
            if (std::find(group.members.begin(), group.members.end(), rank_) == group.members.end()) continue;
            group_at_[index(group.id)] = id_at<GroupId>(out_.schedule.groups.size());
            out_.schedule.groups.push_back({group_at_[index(group.id)], group.members});
        }
    }

    void add_buffers() {
        buffer_at_.assign(whole_.buffers.size(), kNoBuffer);
        for (const Buffer& buffer : whole_.buffers) {
            if (buffer.rank != rank_) continue;
            buffer_at_[index(buffer.id)] = id_at<BufferId>(out_.schedule.buffers.size());
            out_.schedule.buffers.push_back(buffer);
            out_.schedule.buffers.back().id = buffer_at_[index(buffer.id)];
        }
    }

    // The rank's ops and those that they meet, as listed.
    void number_ops() {
        const OpMatches matches(whole_);
        std::vector<bool> kept(whole_.ops.size(), false);
        for (const Op& op : whole_.ops) {
            if (op.rank != rank_) continue;
            kept[index(op.id)] = true;
            if (matches.of(op.id) == kNoMatch) continue;
            for (const OpId partner : matches.members(matches.of(op.id)))
                if (partner != kNoOp) kept[index(partner)] = true;
        }
        for (const Op& op : whole_.ops) {
            if (!kept[index(op.id)]) continue;
            op_at_[index(op.id)] = id_at<OpId>(out_.op_of.size());
            out_.op_of.push_back(op.id);
        }
    }

    void add_op(const Op& from) {
        Op& op = out_.schedule.ops.emplace_back(
            Op{op_at_[index(from.id)], from.rank, from.lane, from.work, {}, {}, from.tag});
        if (auto* collective = std::get_if<Collective>(&op.work))
            collective->group = group_at_[index(collective->group)];
        if (from.rank != rank_) return;
        for (const OpId after : from.after) op.after.push_back(op_at_[index(after)]);
        op.accesses = from.accesses;
        for (Access& access : op.accesses) access.buffer = buffer_at_[index(access.buffer)];
    }

    const Schedule& whole_;
    const Rank rank_;
    RankSlice out_;
    std::vector<GroupId> group_at_;    // by group of the whole schedule, as the other two
    std::vector<BufferId> buffer_at_;  // kNoBuffer: another rank's
    std::vector<OpId> op_at_;          // kNoOp: not in the slice
};

}  // namespace

RankSlice slice_rank(const Schedule& schedule, Rank rank) { return Slicing(schedule, rank).run(); }

}  // namespace sluice
