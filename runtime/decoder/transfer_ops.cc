// Collectives, sends and receives.
#include <string>
#include <vector>

#include "runtime/decoder/bind_op.h"
#include "runtime/decoder/head_blocks.h"

namespace sluice {
namespace {

Communicator& group_of(const RankContext& c, const Op& op) {
    return c.communicators.group(std::get<Collective>(op.work).group);
}

// What the rank brings to an all-gather: its rows of a norm's output, or the gradient of its rows.
std::span<float> gather_source(const RankContext& c, const Op& op, const Operands& o) {
    const auto own_rows = [&](Tensor tensor) {
        const std::int64_t hidden = c.model().hidden;
        const MatrixView rows = o.own_rows(o.tensor(tensor), c.rows(op), c.first_row(op), c.tokens(op), hidden);
        return std::span(rows.data, static_cast<std::size_t>(rows.rows * hidden));
    };
    switch (op.tag.function) {
        case Function::kNorm1:
            return own_rows(Tensor::kNorm1Output);
        case Function::kNorm2:
            return own_rows(Tensor::kNorm2Output);
        case Function::kFinalNorm:
            return o.boundary(AccessMode::kRead);
        case Function::kMlp:
        case Function::kAttention:
        case Function::kEmbedding:
            return o.arriving();
        default:
            o.refuse("no such all-gather");
    }
}

BoundOp bind_all_gather(const RankContext& c, const Op& op, const Operands& o) {
    const std::span<const float> mine = gather_source(c, op, o);
    // Saved whole, a norm's output is gathered in place.
    const std::span<float> all =
        o.has(BufferKind::kComm, AccessMode::kWrite)
            ? o.of_kind(BufferKind::kComm, AccessMode::kWrite)
            : o.tensor(op.tag.function == Function::kNorm1 ? Tensor::kNorm1Output : Tensor::kNorm2Output);
    if (mine.size() * static_cast<std::size_t>(c.shape.shards) != all.size())
        o.refuse("the gathered tensor is not all shards' rows");
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    return [=, &group, call = describe_call(op)](KernelClock&) { group.all_gather({member, call}, mine, all); };
}

BoundOp bind_reduce_scatter(const RankContext& c, const Op& op, const Operands& o) {
    const std::span<const float> sums = o.of_kind(BufferKind::kComm, AccessMode::kRead);
    const std::span<float> mine = o.target();
    if (mine.size() * static_cast<std::size_t>(c.shape.shards) != sums.size())
        o.refuse("the scattered tensor is not all shards' rows");
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    return [=, &group, call = describe_call(op)](KernelClock&) { group.reduce_scatter({member, call}, sums, mine); };
}

// A tensor before and after an all-to-all; both in blocks by member.
struct Exchanged {
    std::span<const float> out;
    std::span<float> in;
};

// Queries and what is like them come first, then keys with values.
std::vector<Exchanged> exchanged(const RankContext& c, const Op& op, const Operands& o) {
    const bool backward = op.tag.phase == Phase::kBackward;
    const auto read = [&] { return o.of_kind(BufferKind::kComm, AccessMode::kRead); };
    const auto written = [&] { return o.of_kind(BufferKind::kComm, AccessMode::kWrite); };
    const auto query = static_cast<std::size_t>(c.tokens(op) * c.query_width());
    switch (op.tag.function) {
        case Function::kQkv: {
            if (read().size() < query) o.refuse("the exchanged queries have another size");
            const std::span<float> in =
                backward ? written().first(query) : o.tensor(Tensor::kQuery, AccessMode::kWrite);
            const std::span<float> kv =
                backward ? written().subspan(query) : o.of_kind(BufferKind::kKv, AccessMode::kWrite);
            return {{read().first(query), in}, {read().subspan(query), kv}};
        }
        case Function::kQuery:
            return {{read(), o.tensor(Tensor::kQuery, AccessMode::kWrite)}};
        case Function::kAttention:
            return {{o.tensor(Tensor::kAttentionOutput), written()}};
        case Function::kProjection:
            return {{read(), written()}};
        default:
            o.refuse("no such all-to-all");
    }
}

BoundOp bind_all_to_all(const RankContext& c, const Op& op, const Operands& o) {
    std::vector<std::span<const float>> out;
    std::vector<std::span<float>> in;
    for (const Exchanged& e : exchanged(c, op, o)) {
        if (e.out.size() != e.in.size() || e.out.size() % static_cast<std::size_t>(c.shape.shards) != 0)
            o.refuse("what is sent and what arrives are not equal blocks of all members");
        for (const std::span<const float> part : exchanged_parts(e.out, c.shape.shards)) out.push_back(part);
        for (const std::span<float> part : exchanged_parts(e.in, c.shape.shards)) in.push_back(part);
    }
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    return [=, &group, call = describe_call(op)](KernelClock&) { group.all_to_all({member, call}, out, in); };
}

// Gradients of what every shard holds.
std::vector<std::span<float>> replicated(const RankContext& c, const Operands& o) {
    std::vector<std::span<float>> pieces;
    for (const ParameterSlice& slice : c.layout.slices)
        if (slice.replicated) pieces.push_back(gradients_of(c.layout, o, slice));
    return pieces;
}

std::vector<std::span<float>> reduced_pieces(const RankContext& c, const Op& op, const Operands& o) {
    if (op.tag.function == Function::kReplicated) return replicated(c, o);
    std::vector<std::span<float>> pieces;
    for (std::size_t k = 0; k < op.accesses.size(); ++k) pieces.push_back(o.of_kind(BufferKind::kGrads, k));
    // The table comes first in the embedding's part and in the head's.
    if (op.tag.function == Function::kTiedTable)
        pieces.front() =
            pieces.front().first(static_cast<std::size_t>(std::get<Collective>(op.work).bytes.value) / sizeof(float));
    return pieces;
}

BoundOp bind_all_reduce(const RankContext& c, const Op& op, const Operands& o) {
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    if (op.tag.function == Function::kGradientNorm) {
        const std::span<float> norm = o.of_kind(BufferKind::kComm);
        const std::span<double> value{reinterpret_cast<double*>(norm.data()), norm.size() / 2};
        return [=, &group, call = describe_call(op)](KernelClock&) { group.all_reduce({member, call}, value); };
    }
    return [&group, member, pieces = reduced_pieces(c, op, o), call = describe_call(op)](KernelClock&) {
        group.all_reduce({member, call}, std::span<const std::span<float>>(pieces));
    };
}

}  // namespace

BoundOp bind_collective(const RankContext& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    const Collective& work = std::get<Collective>(op.work);
    if (work.calls != 1) o.refuse("it stands for several collectives");
    switch (work.kind) {
        case CollectiveKind::kAllGather:
            return bind_all_gather(c, op, o);
        case CollectiveKind::kReduceScatter:
            return bind_reduce_scatter(c, op, o);
        case CollectiveKind::kAllReduce:
            return bind_all_reduce(c, op, o);
        case CollectiveKind::kAllToAll:
            return bind_all_to_all(c, op, o);
        default:
            o.refuse("no such collective in this runtime");
    }
}

BoundOp bind_transfer(const RankContext& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    const bool sends = std::holds_alternative<Send>(op.work);
    const std::span<std::byte> bytes =
        std::as_writable_bytes(o.boundary(sends ? AccessMode::kRead : AccessMode::kWrite));
    Communicator& channel =
        sends ? c.communicators.channel(c.rank, op.lane.peer) : c.communicators.channel(op.lane.peer, c.rank);
    return [=, &channel, call = describe_call(op)](KernelClock&) {
        if (sends)
            channel.send({0, call}, bytes);
        else
            channel.receive({1, call}, bytes);
    };
}

}  // namespace sluice
