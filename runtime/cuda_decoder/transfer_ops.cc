// Collectives, sends and receives: bf16 for what belongs to activations and for weights, fp32 for gradients of
// parameters, a double for their norm.
#include <string>
#include <utility>
#include <vector>

#include "runtime/communicators.h"
#include "runtime/cuda_decoder/bind_op.h"
#include "runtime/decoder/head_blocks.h"
#include "runtime/decoder/message_operands.h"

namespace sluice::cuda {
namespace {

// Asks the transport for one call with the op's words, on the stream that the op is on.
template <class Ask>
BoundCudaOp call_of(const Op& op, Ask ask) {
    return [id = op.id, what = describe_call(op), ask = std::move(ask)](StreamClock& clock) {
        ask(TransportCall{id, what, clock.stream()});
    };
}

BoundCudaOp bind_all_gather(const RankSizes& c, Transport& transport, const Op& op, GroupId group) {
    const PartAndWhole gather = gathered_bytes(c, op, sizeof(Bf16));
    return call_of(op, [&transport, group, gather](const TransportCall& call) {
        transport.all_gather(call, group, gather.part, gather.whole);
    });
}

BoundCudaOp bind_reduce_scatter(const RankSizes& c, Transport& transport, const Op& op, GroupId group) {
    const PartAndWhole scatter = scattered_bytes(c, op);
    return call_of(op, [&transport, group, scatter](const TransportCall& call) {
        transport.reduce_scatter(call, group, ElementType::kBf16, scatter.whole, scatter.part);
    });
}

BoundCudaOp bind_all_reduce(const RankSizes& c, Transport& transport, const Op& op, GroupId group) {
    const ElementType type = op.tag.function == Function::kGradientNorm ? ElementType::kFp64 : ElementType::kFp32;
    return call_of(op, [&transport, group, type, pieces = reduced_bytes(c, op)](const TransportCall& call) {
        transport.all_reduce(call, group, type, pieces);
    });
}

BoundCudaOp bind_shared_out(const RankSizes& c, Transport& transport, const Op& op, const Collective& work) {
    const bool gathers = work.kind == CollectiveKind::kAllGather;
    const ElementType type = gathers ? ElementType::kBf16 : ElementType::kFp32;
    return call_of(op, [&transport, gathers, type, group = work.group,
                        pieces = shared_bytes(c, op, size_of(type))](const TransportCall& call) {
        gathers ? transport.all_gather_shares(call, group, type, pieces)
                : transport.reduce_scatter_shares(call, group, type, pieces);
    });
}

BoundCudaOp bind_all_to_all(const RankSizes& c, Transport& transport, const Op& op, GroupId group) {
    std::vector<std::span<const std::byte>> out;
    std::vector<std::span<std::byte>> in;
    for (const ExchangedBytes& e : exchanged_bytes(c, op, sizeof(Bf16))) {
        for (const std::span<std::byte> part : exchanged_parts(e.out, c.shape.shards)) out.push_back(part);
        for (const std::span<std::byte> part : exchanged_parts(e.in, c.shape.shards)) in.push_back(part);
    }
    return call_of(
        op, [&transport, group, out, in](const TransportCall& call) { transport.all_to_all(call, group, out, in); });
}

BoundCudaOp bind_collective(const RankSizes& c, Transport& transport, const Op& op, const Collective& work) {
    const OpBytes o(c.schedule, c.arenas, op);
    if (work.calls != 1) o.refuse("it stands for several collectives");
    if (shares_out(op)) return bind_shared_out(c, transport, op, work);
    switch (work.kind) {
        case CollectiveKind::kAllGather:
            return bind_all_gather(c, transport, op, work.group);
        case CollectiveKind::kReduceScatter:
            return bind_reduce_scatter(c, transport, op, work.group);
        case CollectiveKind::kAllReduce:
            return bind_all_reduce(c, transport, op, work.group);
        case CollectiveKind::kAllToAll:
            return bind_all_to_all(c, transport, op, work.group);
        default:
            o.refuse("no such collective in this runtime");
    }
}

}  // namespace

BoundCudaOp bind_message(const RankSizes& c, Transport& transport, const Op& op) {
    if (const auto* work = std::get_if<Collective>(&op.work)) return bind_collective(c, transport, op, *work);
    const std::span<std::byte> bytes = transferred_bytes(c, op);
    const Rank peer = op.lane.peer;
    if (std::holds_alternative<Send>(op.work))
        return call_of(op, [=, &transport](const TransportCall& call) { transport.send(call, peer, bytes); });
    return call_of(op, [=, &transport](const TransportCall& call) { transport.receive(call, peer, bytes); });
}

}  // namespace sluice::cuda
