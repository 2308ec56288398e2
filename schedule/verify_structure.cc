// Layer one of verify(): may every id, index, enum and number be used safely?
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "schedule/describe.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

class StructureCheck {
public:
    StructureCheck(const Schedule& schedule, Diagnostics& found) : schedule_(schedule), found_(found) {}

    void run() {
        check_ids(schedule_.groups, "group");
        check_ids(schedule_.buffers, "buffer");
        check_ids(schedule_.ops, "op");
        check_machine();
        for (const Group& group : schedule_.groups) check_group(group);
        for (std::size_t i = 0; i < schedule_.buffers.size(); ++i) check_buffer(id_at<BufferId>(i));
        for (std::size_t i = 0; i < schedule_.ops.size(); ++i) check_op(id_at<OpId>(i));
        check_total_bytes();
        if (found_.empty()) check_lane_counts();
    }

private:
    void say(Rule rule, OpId op, BufferId buffer, std::string message) {
        report(found_, rule, op, buffer, std::move(message));
    }

    // One wrong id usually shifts all that follow: the first stands for them.
    template <class Thing>
    void check_ids(const std::vector<Thing>& things, std::string_view what) {
        for (std::size_t i = 0; i < things.size(); ++i) {
            if (index(things[i].id) == i) continue;
            say(Rule::kDenseIds, kNoOp, kNoBuffer,
                fmt::format("{} at position {} has id {}, expected its position", what, i, index(things[i].id)));
            return;
        }
    }

    void check_machine() {
        for (std::size_t h = 0; h < schedule_.hosts.size(); ++h)
            check_at_least(0, schedule_.hosts[h].capacity.value, [&] { return fmt::format("capacity of host {}", h); });
        for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
            check_at_least(0, schedule_.ranks[r].device_capacity.value,
                           [&] { return fmt::format("device capacity of rank {}", r); });
            check_index(index(schedule_.ranks[r].host), schedule_.hosts.size(), "host",
                        [&] { return fmt::format("rank {}", r); });
        }
    }

    void check_group(const Group& group) {
        const auto subject = [&] { return fmt::format("group {}", index(group.id)); };
        if (group.members.empty())
            say(Rule::kGroupMembers, kNoOp, kNoBuffer, subject() + " has no members, expected at least one rank");
        for (const Rank member : group.members) check_index(index(member), schedule_.ranks.size(), "rank", subject);
        std::vector<Rank> sorted = group.members;
        std::sort(sorted.begin(), sorted.end());
        const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
        if (twice != sorted.end())
            say(Rule::kGroupMembers, kNoOp, kNoBuffer,
                fmt::format("{} lists rank {} more than once, expected every member once", subject(), index(*twice)));
    }

    void check_buffer(BufferId id) {
        const Buffer& buffer = schedule_.buffers[index(id)];
        buffer_ = id;
        const auto subject = [&] { return fmt::format("buffer {}", index(id)); };
        check_index(index(buffer.rank), schedule_.ranks.size(), "rank", subject);
        check_enum(buffer.space, Space::kHost, "space", subject);
        check_enum(buffer.kind, BufferKind::kComm, "kind", subject);
        check_at_least(1, buffer.bytes.value, [&] { return "bytes of " + subject(); });
        if (buffer.offset) check_at_least(0, buffer.offset->value, [&] { return "offset of " + subject(); });
        for (std::size_t b = 0; b < buffer.blocks.size(); ++b)
            check_at_least(1, buffer.blocks[b].value,
                           [&] { return fmt::format("bytes of block {} of {}", b, subject()); });
        for (const SavedTensor& saved : buffer.tensors) {
            check_enum(saved.tensor, Tensor::kActivationOutput, "tensor", subject);
            check_at_least(1, saved.bytes.value,
                           [&] { return fmt::format("bytes of tensor {} of {}", name(saved.tensor), subject()); });
        }
        check_sum(buffer, "blocks", buffer.blocks, std::identity());
        check_sum(buffer, "tensors", buffer.tensors, &SavedTensor::bytes);
        buffer_ = kNoBuffer;
    }

    template <class Parts, class Size>
    void check_sum(const Buffer& buffer, std::string_view parts, const Parts& all, Size size) {
        if (all.empty()) return;
        std::int64_t left = buffer.bytes.value;  // counting down cannot overflow
        for (const auto& part : all) {
            const Bytes bytes = std::invoke(size, part);
            if (bytes.value < 1) return;  // reported already
            if (bytes.value > left) {
                say(Rule::kBlockSizes, kNoOp, buffer_,
                    fmt::format("{} of buffer {} sum to more than its {} B, expected exactly these", parts,
                                index(buffer_), buffer.bytes.value));
                return;
            }
            left -= bytes.value;
        }
        if (left != 0)
            say(Rule::kBlockSizes, kNoOp, buffer_,
                fmt::format("{} of buffer {} sum to {} B, expected its {} B", parts, index(buffer_),
                            buffer.bytes.value - left, buffer.bytes.value));
    }

    void check_op(OpId id) {
        const Op& op = schedule_.ops[index(id)];
        op_ = id;
        const auto subject = [&] { return fmt::format("op {}", index(id)); };
        check_index(index(op.rank), schedule_.ranks.size(), "rank", subject);
        check_enum(op.lane.kind, LaneKind::kReceive, "lane kind", subject);
        check_tag(op.tag, subject);
        for (const OpId earlier : op.after) check_index(index(earlier), schedule_.ops.size(), "op", subject);
        for (const Access& access : op.accesses) check_access(access, subject);
        std::visit([&](const auto& work) { check_work(work, subject); }, op.work);
        op_ = kNoOp;
    }

    template <class Subject>
    void check_tag(const Tag& tag, const Subject& subject) {
        check_enum(tag.phase, Phase::kOptimizer, "phase", subject);
        check_enum(tag.function, Function::kActivation, "function", subject);
        const std::int32_t least =
            std::min({tag.sequence, tag.stage, tag.virtual_stage, tag.layer, tag.subsequence, tag.part});
        check_at_least(-1, least, [&] { return "smallest tag field of " + subject(); });
    }

    template <class Subject>
    void check_access(const Access& access, const Subject& subject) {
        check_enum(access.mode, AccessMode::kAccumulate, "access mode", subject);
        if (!check_index(index(access.buffer), schedule_.buffers.size(), "buffer", subject)) return;
        const std::uint32_t count = schedule_.buffers[index(access.buffer)].block_count();
        if (access.first_block <= access.last_block && access.last_block < count) return;
        say(Rule::kBlockRange, op_, access.buffer,
            fmt::format("{} uses blocks {}..{} of buffer {}, expected first <= last < {}", subject(),
                        access.first_block, access.last_block, index(access.buffer), count));
    }

    template <class Subject>
    void check_work(const Compute& work, const Subject& subject) {
        for (const Kernel& kernel : work.kernels) {
            check_at_least(1, kernel.count, [&] { return "kernel count of " + subject(); });
            std::visit([&](const auto& shape) { check_kernel(shape, subject); }, kernel.shape);
        }
    }
    template <class Subject>
    void check_work(const Collective& work, const Subject& subject) {
        check_enum(work.kind, CollectiveKind::kReduce, "collective kind", subject);
        check_at_least(1, work.bytes.value, [&] { return "bytes of " + subject(); });
        check_at_least(1, work.calls, [&] { return "calls of " + subject(); });
        if (!check_index(index(work.group), schedule_.groups.size(), "group", subject)) return;
        const bool rooted = work.kind == CollectiveKind::kBroadcast || work.kind == CollectiveKind::kReduce;
        const std::size_t limit = rooted ? schedule_.groups[index(work.group)].members.size() : 1;
        if (work.root >= limit)
            say(Rule::kRootRange, op_, kNoBuffer,
                fmt::format("{}: root of {} is {}, expected {}", subject(), name(work.kind), work.root,
                            rooted ? fmt::format("an index below {} into group {}", limit, index(work.group))
                                   : std::string("0, it has none")));
    }
    template <class Transfer, class Subject>  // Copy, Send, Receive
    void check_work(const Transfer& work, const Subject& subject) {
        check_at_least(1, work.bytes.value, [&] { return "bytes of " + subject(); });
    }

    template <class Subject>
    void check_kernel(const Gemm& gemm, const Subject& subject) {
        check_at_least(1, std::min({gemm.m, gemm.n, gemm.k}),
                       [&] { return "smallest gemm dimension of " + subject(); });
    }
    template <class Subject>
    void check_kernel(const Attention& a, const Subject& subject) {
        check_enum(a.pass, Pass::kBackward, "attention pass", subject);
        check_at_least(1, std::min({a.queries, a.keys, a.heads, a.kv_heads, a.head_dim}),
                       [&] { return "smallest attention dimension of " + subject(); });
        if (a.causal && a.queries > a.keys)
            say(Rule::kAttentionWindow, op_, kNoBuffer,
                fmt::format("{}: causal attention of {} queries has {} keys, expected at least as many keys as queries",
                            subject(), a.queries, a.keys));
    }
    template <class Subject>
    void check_kernel(const Pointwise& pointwise, const Subject& subject) {
        check_enum(pointwise.kind, PointwiseKind::kOther, "pointwise kind", subject);
        check_at_least(1, pointwise.traffic.value, [&] { return "traffic of " + subject(); });
    }

    // Sums of sizes and ends of buffers stay far below 2^63 everywhere after this.
    void check_total_bytes() {
        std::int64_t left = kMaxTotalBytes.value;
        for (const Buffer& buffer : schedule_.buffers) {
            const std::int64_t size = std::max<std::int64_t>(buffer.bytes.value, 0);
            const std::int64_t end = buffer.offset ? std::max<std::int64_t>(buffer.offset->value, 0) : 0;
            if (size <= left && end <= kMaxTotalBytes.value) {
                left -= size;
                continue;
            }
            say(Rule::kSizeLimit, kNoOp, buffer.id,
                fmt::format(
                    "buffer {} has {} B at offset {}, expected at most {} B in all buffers together and in an offset",
                    index(buffer.id), size, end, kMaxTotalBytes.value));
            return;
        }
    }

    void check_lane_counts() {
        std::vector<std::set<Lane>> lanes(schedule_.ranks.size());
        for (const Op& op : schedule_.ops) {
            std::set<Lane>& own = lanes[index(op.rank)];
            if (own.size() <= kMaxLanesPerRank && own.insert(op.lane).second && own.size() > kMaxLanesPerRank)
                say(Rule::kLaneCount, op.id, kNoBuffer,
                    fmt::format("{} is on lane {} of its rank, expected at most {}", describe(op), own.size(),
                                kMaxLanesPerRank));
        }
    }

    template <class Subject>
    bool check_index(std::size_t got, std::size_t size, std::string_view what, const Subject& subject) {
        if (got < size) return true;
        say(Rule::kIndexRange, op_, buffer_,
            fmt::format("{} refers to {} {}, expected below {}", subject(), what, got, size));
        return false;
    }

    template <class Enum, class Subject>
    void check_enum(Enum got, Enum last, std::string_view what, const Subject& subject) {
        if (got <= last) return;
        say(Rule::kEnumRange, op_, buffer_,
            fmt::format("{}: {} is {}, expected at most {}", subject(), what, static_cast<int>(got),
                        static_cast<int>(last)));
    }

    template <class Subject>
    void check_at_least(std::int64_t least, std::int64_t got, const Subject& subject) {
        if (got >= least) return;
        say(Rule::kValueRange, op_, buffer_, fmt::format("{} is {}, expected at least {}", subject(), got, least));
    }

    const Schedule& schedule_;
    Diagnostics& found_;
    OpId op_ = kNoOp;  // what is being looked at, for the diagnostics
    BufferId buffer_ = kNoBuffer;
};

}  // namespace

void check_structure(const Schedule& schedule, Diagnostics& found) { StructureCheck(schedule, found).run(); }

}  // namespace sluice
