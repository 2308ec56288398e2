// Collectives, sends and receives.
#include <string>
#include <vector>

#include "runtime/decoder/bind_op.h"
#include "runtime/decoder/head_blocks.h"
#include "runtime/decoder/message_operands.h"

namespace sluice {
namespace {

Communicator& group_of(const RankContext& c, const Op& op) {
    return c.communicators.group(std::get<Collective>(op.work).group);
}

BoundOp bind_all_gather(const RankContext& c, const Op& op) {
    const PartAndWhole gather = gathered_bytes(c, op, sizeof(float));
    const std::span<const float> mine = as_floats(gather.part);
    const std::span<float> all = as_floats(gather.whole);
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    return [=, &group, call = describe_call(op)](KernelClock&) { group.all_gather({member, call}, mine, all); };
}

BoundOp bind_reduce_scatter(const RankContext& c, const Op& op) {
    const PartAndWhole scatter = scattered_bytes(c, op);
    const std::span<const float> sums = as_floats(scatter.whole);
    const std::span<float> mine = as_floats(scatter.part);
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    return [=, &group, call = describe_call(op)](KernelClock&) { group.reduce_scatter({member, call}, sums, mine); };
}

// The pieces of each member are the others' to read during the call.
BoundOp bind_shared_out(const RankContext& c, const Op& op) {
    const bool gathers = std::get<Collective>(op.work).kind == CollectiveKind::kAllGather;
    std::vector<std::span<float>> pieces;
    for (const std::span<std::byte> piece : shared_bytes(c, op, sizeof(float))) pieces.push_back(as_floats(piece));
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    return [=, &group, call = describe_call(op)](KernelClock&) {
        gathers ? group.all_gather_shares({member, call}, pieces) : group.reduce_scatter_shares({member, call}, pieces);
    };
}

BoundOp bind_all_to_all(const RankContext& c, const Op& op) {
    std::vector<std::span<const float>> out;
    std::vector<std::span<float>> in;
    for (const ExchangedBytes& e : exchanged_bytes(c, op, sizeof(float))) {
        for (const std::span<const float> part : exchanged_parts(as_floats(e.out), c.shape.shards)) out.push_back(part);
        for (const std::span<float> part : exchanged_parts(as_floats(e.in), c.shape.shards)) in.push_back(part);
    }
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    return [=, &group, call = describe_call(op)](KernelClock&) { group.all_to_all({member, call}, out, in); };
}

BoundOp bind_all_reduce(const RankContext& c, const Op& op) {
    Communicator& group = group_of(c, op);
    const std::uint32_t member = group.member_of(c.rank);
    const std::vector<std::span<std::byte>> reduced = reduced_bytes(c, op);
    if (op.tag.function == Function::kGradientNorm) {
        const std::span<double> value = as_elements<double>(reduced.front());
        return [=, &group, call = describe_call(op)](KernelClock&) { group.all_reduce({member, call}, value); };
    }
    std::vector<std::span<float>> pieces;
    for (const std::span<std::byte> piece : reduced) pieces.push_back(as_floats(piece));
    return [&group, member, pieces, call = describe_call(op)](KernelClock&) {
        group.all_reduce({member, call}, std::span<const std::span<float>>(pieces));
    };
}

}  // namespace

BoundOp bind_collective(const RankContext& c, const Op& op) {
    const Collective& work = std::get<Collective>(op.work);
    if (work.calls != 1) Operands(c.schedule, c.arenas, op).refuse("it stands for several collectives");
    if (shares_out(op)) return bind_shared_out(c, op);
    switch (work.kind) {
        case CollectiveKind::kAllGather:
            return bind_all_gather(c, op);
        case CollectiveKind::kReduceScatter:
            return bind_reduce_scatter(c, op);
        case CollectiveKind::kAllReduce:
            return bind_all_reduce(c, op);
        case CollectiveKind::kAllToAll:
            return bind_all_to_all(c, op);
        default:
            Operands(c.schedule, c.arenas, op).refuse("no such collective in this runtime");
    }
}

BoundOp bind_transfer(const RankContext& c, const Op& op) {
    const bool sends = std::holds_alternative<Send>(op.work);
    const std::span<std::byte> bytes = transferred_bytes(c, op);
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
