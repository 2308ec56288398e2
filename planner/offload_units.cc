#include "planner/offload_units.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "planner/whole_tensors.h"

namespace sluice {
namespace {

constexpr std::uint32_t kNoUnit = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kLaneKinds = 6;

class OffloadPass {
public:
    OffloadPass(const FoldedStep& from, const std::vector<Bytes>& moved) : from_(from), moved_(moved) {
        SLUICE_CHECK(moved.size() == from.units.size(), "one amount per unit");
        out_.step.group_roles = from.group_roles;
        out_.step.units = from.units;
        out_.step.schedule.hosts = from.schedule.hosts;
        out_.step.schedule.ranks = from.schedule.ranks;
        out_.step.schedule.groups = from.schedule.groups;
        out_.parts.resize(from.units.size());
        const std::size_t units = from.units.size();  // of each three more parts and two copies, at most
        out_.step.schedule.buffers.reserve(from.schedule.buffers.size() + 3 * units);
        out_.step.schedule.ops.reserve(from.schedule.ops.size() + 2 * units);
        new_buffer_.reserve(from.schedule.buffers.size());
        new_op_.reserve(from.schedule.ops.size());
    }

    OffloadedStep run() && {
        split_buffers();
        index_copies();
        last_forward_.assign(from_.units.size(), {kNoOp, kNoOp, kNoOp, kNoOp, kNoOp, kNoOp});
        waits_.assign(from_.units.size(), {});
        copy_out_.assign(from_.units.size(), kNoOp);
        copy_in_.assign(from_.units.size(), kNoOp);
        for (const Op& op : from_.schedule.ops) {
            for (const std::uint32_t u : copies_in_[index(op.id)]) emit_copy_in(u);
            emit_op(op);
            for (const std::uint32_t u : copies_out_[index(op.id)]) emit_copy_out(u);
        }
        renumber_units();
        return std::move(out_);
    }

private:
    BufferId add(Buffer buffer) {
        buffer.id = id_at<BufferId>(out_.step.schedule.buffers.size());
        out_.step.schedule.buffers.push_back(std::move(buffer));
        return out_.step.schedule.buffers.back().id;
    }

    BufferId add_part(const Buffer& unit, Space space, Bytes bytes, const std::vector<SavedTensor>& tensors) {
        if (bytes.value == 0) return kNoBuffer;
        Buffer part = unit;
        part.space = space;
        part.bytes = bytes;
        part.tensors = tensors;
        if (space == Space::kHost) part.kind = BufferKind::kStaging;
        return add(std::move(part));
    }

    void split_buffers() {
        unit_of_buffer_.assign(from_.schedule.buffers.size(), kNoUnit);
        for (std::uint32_t u = 0; u < from_.units.size(); ++u) unit_of_buffer_[index(from_.units[u].buffer)] = u;
        for (const Buffer& buffer : from_.schedule.buffers) {
            const std::uint32_t u = unit_of_buffer_[index(buffer.id)];
            if (u == kNoUnit) {
                new_buffer_.push_back(add(buffer));
                continue;
            }
            const Bytes moved = moved_[u];
            SLUICE_CHECK(moved.value >= 0 && moved <= buffer.bytes, "a part of the unit");
            UnitParts& parts = out_.parts[u];
            const TensorSplit split = split_tensors(buffer.tensors, moved).value_or(TensorSplit{});
            parts.kept = add_part(buffer, Space::kDevice, buffer.bytes - moved, split.kept);
            parts.moved = add_part(buffer, Space::kDevice, moved, split.moved);
            parts.host = add_part(buffer, Space::kHost, moved, split.moved);
            parts.reloaded = add_part(buffer, Space::kDevice, moved, split.moved);
            new_buffer_.push_back(parts.kept);
        }
    }

    void index_copies() {
        copies_out_.resize(from_.schedule.ops.size());
        copies_in_.resize(from_.schedule.ops.size());
        for (std::uint32_t u = 0; u < from_.units.size(); ++u) {
            if (moved_[u].value == 0) continue;
            copies_out_[index(from_.units[u].offload_after)].push_back(u);
            copies_in_[index(from_.units[u].reload_before)].push_back(u);
        }
        // what backward needs first comes first: later subsequences, then later layers
        for (std::vector<std::uint32_t>& units : copies_in_) std::reverse(units.begin(), units.end());
    }

    OpId emit(Op op) {
        op.id = id_at<OpId>(out_.step.schedule.ops.size());
        out_.step.schedule.ops.push_back(std::move(op));
        return out_.step.schedule.ops.back().id;
    }

    Op copy_op(std::uint32_t u, LaneKind lane, Phase phase) const {
        const Unit& unit = from_.units[u];
        Op op;
        op.rank = from_.schedule.buffers[index(unit.buffer)].rank;
        op.lane = {lane, kNoRank};
        op.work = Copy{moved_[u]};
        op.tag = Tag{phase, unit.sequence, static_cast<std::int32_t>(unit.stage),
                     -1,    unit.layer,    static_cast<std::int32_t>(unit.subsequence),
                     -1};
        return op;
    }

    void emit_copy_out(std::uint32_t u) {
        Op op = copy_op(u, LaneKind::kCopyOut, Phase::kForward);
        for (const OpId user : last_forward_[u])
            if (user != kNoOp) op.after.push_back(user);
        std::sort(op.after.begin(), op.after.end());
        op.accesses = {{out_.parts[u].moved, 0, 0, AccessMode::kRead}, {out_.parts[u].host, 0, 0, AccessMode::kWrite}};
        copy_out_[u] = emit(std::move(op));
    }

    void emit_copy_in(std::uint32_t u) {
        Op op = copy_op(u, LaneKind::kCopyIn, Phase::kBackward);
        SLUICE_CHECK(copy_out_[u] != kNoOp, "a unit leaves before it comes back");
        op.after = {copy_out_[u]};
        op.accesses = {{out_.parts[u].host, 0, 0, AccessMode::kRead},
                       {out_.parts[u].reloaded, 0, 0, AccessMode::kWrite}};
        copy_in_[u] = emit(std::move(op));
    }

    void emit_op(const Op& old) {
        Op op = old;
        for (OpId& id : op.after) id = new_op_[index(id)];
        op.accesses.clear();
        const auto lane = static_cast<std::size_t>(op.lane.kind);
        const auto next_id = id_at<OpId>(out_.step.schedule.ops.size());
        for (const Access& access : old.accesses) {
            const std::uint32_t u = unit_of_buffer_[index(access.buffer)];
            if (u == kNoUnit || moved_[u].value == 0) {
                op.accesses.push_back(
                    {new_buffer_[index(access.buffer)], access.first_block, access.last_block, access.mode});
                continue;
            }
            const bool forward = op.tag.phase == Phase::kForward;
            const UnitParts& parts = out_.parts[u];
            if (parts.kept != kNoBuffer) op.accesses.push_back({parts.kept, 0, 0, access.mode});
            op.accesses.push_back({forward ? parts.moved : parts.reloaded, 0, 0, access.mode});
            if (forward)
                last_forward_[u][lane] = next_id;
            else if (!std::exchange(waits_[u][lane], true))
                op.after.push_back(copy_in_[u]);
        }
        std::sort(op.after.begin(), op.after.end());
        op.after.erase(std::unique(op.after.begin(), op.after.end()), op.after.end());
        new_op_.push_back(emit(std::move(op)));
    }

    void renumber_units() {
        for (std::size_t u = 0; u < from_.units.size(); ++u) {
            Unit& unit = out_.step.units[u];
            unit.buffer = out_.parts[u].kept;
            for (BufferId* part : {&unit.dropped, &unit.remade})
                if (*part != kNoBuffer) *part = new_buffer_[index(*part)];
            unit.offload_after = new_op_[index(unit.offload_after)];
            unit.reload_before = new_op_[index(unit.reload_before)];
        }
    }

    const FoldedStep& from_;
    const std::vector<Bytes>& moved_;
    OffloadedStep out_;
    std::vector<std::uint32_t> unit_of_buffer_;                       // by old buffer
    std::vector<BufferId> new_buffer_;                                // by old buffer
    std::vector<OpId> new_op_;                                        // by old op
    std::vector<std::vector<std::uint32_t>> copies_out_, copies_in_;  // units, by old op
    std::vector<std::array<OpId, kLaneKinds>> last_forward_;          // by unit, by lane kind
    std::vector<std::array<bool, kLaneKinds>> waits_;
    std::vector<OpId> copy_out_, copy_in_;
};

}  // namespace

OffloadedStep offload_units(const FoldedStep& step, const std::vector<Bytes>& moved) {
    return OffloadPass(step, moved).run();
}

}  // namespace sluice
