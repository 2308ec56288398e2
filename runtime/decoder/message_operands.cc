#include "runtime/decoder/message_operands.h"

#include "runtime/decoder/parameter_views.h"

namespace sluice {
namespace {

OpBytes bytes_of(const RankSizes& c, const Op& op) { return {c.schedule, c.arenas, op}; }

// A norm's output is the rank's rows, or all rows, of which its own are what it brings.
std::span<std::byte> own_rows(const RankSizes& c, const Op& op, const OpBytes& o, Tensor tensor, std::size_t element) {
    const std::span<std::byte> held = o.tensor(tensor);
    const std::size_t row = static_cast<std::size_t>(c.model().hidden) * element;
    const auto rows = static_cast<std::size_t>(c.rows(op)), all = static_cast<std::size_t>(c.tokens(op));
    if (held.size() == rows * row) return held;
    if (held.size() != all * row) o.refuse("a norm's output is neither the rank's rows nor all of them");
    return held.subspan(static_cast<std::size_t>(c.first_row(op)) * row, rows * row);
}

// What the rank brings to an all-gather: its rows of a norm's output, or the gradient of its rows.
std::span<std::byte> gather_source(const RankSizes& c, const Op& op, const OpBytes& o, std::size_t element) {
    switch (op.tag.function) {
        case Function::kNorm1:
            return own_rows(c, op, o, Tensor::kNorm1Output, element);
        case Function::kNorm2:
            return own_rows(c, op, o, Tensor::kNorm2Output, element);
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

// Gradients of what every shard holds.
std::vector<std::span<std::byte>> replicated(const RankSizes& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    std::vector<std::span<std::byte>> pieces;
    for (const ParameterSlice& slice : c.layout.slices)
        if (slice.replicated && slice.stepped > 0)
            pieces.push_back(std::as_writable_bytes(stepped_gradients_of(c.layout, o, slice)));
    return pieces;
}

// Of the gradients of its part, in which the table comes first: a rank of several stages has one at most.
std::span<std::byte> stepped_table(const RankSizes& c, const OpBytes& o, std::span<std::byte> gradients) {
    for (const ParameterSlice& slice : c.layout.slices)
        if (slice.table)
            return gradients.subspan(static_cast<std::size_t>(slice.first_stepped) * sizeof(float),
                                     static_cast<std::size_t>(slice.stepped) * sizeof(float));
    o.refuse("the rank has no table");
}

}  // namespace

PartAndWhole gathered_bytes(const RankSizes& c, const Op& op, std::size_t element) {
    const OpBytes o = bytes_of(c, op);
    PartAndWhole gather;
    gather.part = gather_source(c, op, o, element);
    // Saved whole, a norm's output is gathered in place.
    gather.whole = o.has(BufferKind::kComm, AccessMode::kWrite)
                       ? o.of_kind(BufferKind::kComm, AccessMode::kWrite)
                       : o.tensor(op.tag.function == Function::kNorm1 ? Tensor::kNorm1Output : Tensor::kNorm2Output);
    if (gather.part.size() * static_cast<std::size_t>(c.shape.shards) != gather.whole.size())
        o.refuse("the gathered tensor is not all shards' rows");
    return gather;
}

PartAndWhole scattered_bytes(const RankSizes& c, const Op& op) {
    const OpBytes o = bytes_of(c, op);
    const PartAndWhole scatter{o.target(), o.of_kind(BufferKind::kComm, AccessMode::kRead)};
    if (scatter.part.size() * static_cast<std::size_t>(c.shape.shards) != scatter.whole.size())
        o.refuse("the scattered tensor is not all shards' rows");
    return scatter;
}

std::vector<ExchangedBytes> exchanged_bytes(const RankSizes& c, const Op& op, std::size_t element) {
    const OpBytes o = bytes_of(c, op);
    const bool backward = op.tag.phase == Phase::kBackward;
    const auto read = [&] { return o.of_kind(BufferKind::kComm, AccessMode::kRead); };
    const auto written = [&] { return o.of_kind(BufferKind::kComm, AccessMode::kWrite); };
    const auto query = static_cast<std::size_t>(c.tokens(op) * c.query_width()) * element;
    std::vector<ExchangedBytes> all;
    switch (op.tag.function) {
        case Function::kQkv:
            if (read().size() < query) o.refuse("the exchanged queries have another size");
            all = {
                {read().first(query), backward ? written().first(query) : o.tensor(Tensor::kQuery, AccessMode::kWrite)},
                {read().subspan(query),
                 backward ? written().subspan(query) : o.of_kind(BufferKind::kKv, AccessMode::kWrite)}};
            break;
        case Function::kQuery:
            all = {{read(), o.tensor(Tensor::kQuery, AccessMode::kWrite)}};
            break;
        case Function::kAttention:
            all = {{o.tensor(Tensor::kAttentionOutput), written()}};
            break;
        case Function::kProjection:
            all = {{read(), written()}};
            break;
        default:
            o.refuse("no such all-to-all");
    }
    for (const ExchangedBytes& e : all)
        if (e.out.size() != e.in.size() || e.out.size() % static_cast<std::size_t>(c.shape.shards) != 0)
            o.refuse("what is sent and what arrives are not equal blocks of all members");
    return all;
}

bool shares_out(const Op& op) {
    const CollectiveKind kind = std::get<Collective>(op.work).kind;
    return (kind == CollectiveKind::kReduceScatter && op.tag.function == Function::kGradients) ||
           (kind == CollectiveKind::kAllGather && op.tag.function == Function::kAdamw);
}

std::vector<std::span<std::byte>> shared_bytes(const RankSizes& c, const Op& op, std::size_t element) {
    const OpBytes o = bytes_of(c, op);
    if (c.layout.shared.empty()) o.refuse("replicas share nothing out");
    std::vector<std::span<std::byte>> pieces;
    for (const SharedRun& run : c.layout.shared) {
        const bool weights = op.tag.function == Function::kAdamw;
        const std::span<std::byte> of =
            weights ? o.of_kind(BufferKind::kWeights) : o.of_kind(BufferKind::kGrads, run.part);
        const std::int64_t first = weights ? run.offset : run.offset - c.layout.parts[run.part].offset;
        const std::size_t begin = static_cast<std::size_t>(first) * element;
        const std::size_t bytes = static_cast<std::size_t>(run.elements) * element;
        if (begin + bytes > of.size()) o.refuse("its buffers are not those of the rank's parameters");
        pieces.push_back(of.subspan(begin, bytes));
    }
    return pieces;
}

std::vector<std::span<std::byte>> reduced_bytes(const RankSizes& c, const Op& op) {
    const OpBytes o = bytes_of(c, op);
    if (op.tag.function == Function::kGradientNorm) return {o.of_kind(BufferKind::kComm)};
    if (op.tag.function == Function::kReplicated) return replicated(c, op);
    std::vector<std::span<std::byte>> pieces;
    for (std::size_t k = 0; k < op.accesses.size(); ++k) pieces.push_back(o.of_kind(BufferKind::kGrads, k));
    if (op.tag.function == Function::kTiedTable) pieces.front() = stepped_table(c, o, pieces.front());
    return pieces;
}

std::span<std::byte> transferred_bytes(const RankSizes& c, const Op& op) {
    return bytes_of(c, op).boundary(std::holds_alternative<Send>(op.work) ? AccessMode::kRead : AccessMode::kWrite);
}

}  // namespace sluice
