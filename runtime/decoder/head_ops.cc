// The embedding, the final norm and the loss.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/learned_positions.h"
#include "runtime/cpu/residual_add.h"
#include "runtime/cpu/token_embedding.h"
#include "runtime/cpu/vocabulary_loss.h"
#include "runtime/decoder/bind_op.h"

namespace sluice {
namespace {

using enum Transpose;

Operands operands_of(const RankContext& c, const Op& op) { return {c.schedule, c.arenas, op}; }

// The token ids of an op's rows. The vectors are filled between steps and never moved.
class TokenRange {
public:
    TokenRange(const RankContext& c, const Op& op, const std::vector<std::vector<TokenId>>& all)
        : all_(&all),
          sequence_(static_cast<std::size_t>(op.tag.sequence)),
          begin_(static_cast<std::size_t>(c.first_position(op).value - c.first_row(op))),
          length_(static_cast<std::size_t>(c.matmul_rows(op))) {}

    std::span<const TokenId> ids() const { return std::span((*all_)[sequence_]).subspan(begin_, length_); }
    [[noreturn]] void refuse(std::int64_t at, std::int64_t vocabulary) const {
        const auto i = static_cast<std::size_t>(at);
        throw InputError(
            fmt::format("bad token id, got {} at position {} of sequence {} of the batch, expected 0 to {}", ids()[i],
                        begin_ + i, sequence_, vocabulary - 1));
    }

private:
    const std::vector<std::vector<TokenId>>* all_;
    std::size_t sequence_, begin_, length_;
};

MatrixView table_at(const RankContext& c, std::span<float> part, std::int64_t offset) {
    return {part.data() + offset, c.vocabulary().count, c.model().hidden};
}

MatrixView positions_at(const RankContext& c, std::span<float> part) {
    if (c.layout.embedding.positions == kAbsent) return {};
    return {part.data() + c.layout.embedding.positions, c.scenario.sequence.value, c.model().hidden};
}

std::span<float> weights_of(const Operands& o, const ParameterPart& part) {
    return o.of_kind(BufferKind::kWeights)
        .subspan(static_cast<std::size_t>(part.offset), static_cast<std::size_t>(part.elements));
}

NormWeights final_norm(const RankContext& c, std::span<float> part) {
    const auto hidden = static_cast<std::size_t>(c.model().hidden);
    const HeadOffsets& at = c.layout.head;
    NormWeights w{part.subspan(static_cast<std::size_t>(at.norm), hidden), {}};
    if (at.norm_bias != kAbsent) w.bias = part.subspan(static_cast<std::size_t>(at.norm_bias), hidden);
    return w;
}

// One chunk of the loss in the workspace: logits, everybody's partial results per token, log-sum-exp per token.
struct LossChunk {
    MatrixView logits;
    std::span<LossPartial> partials;  // of all shards, this shard's own in its place
    std::span<float> log_sum_exp;
    std::int64_t begin = 0;  // first token, of the subsequence
};

std::int64_t floats_of_chunk(std::int64_t tokens, std::int64_t columns, std::int64_t shards) {
    return tokens * (columns + 3 * shards + 1);
}

LossChunk chunk_at(std::span<float> space, std::int64_t begin, std::int64_t tokens, std::int64_t columns,
                   std::int64_t shards) {
    float* at = space.data();
    LossChunk chunk;
    chunk.logits = {at, tokens, columns};
    at += tokens * columns;
    chunk.partials = {reinterpret_cast<LossPartial*>(at), static_cast<std::size_t>(shards * tokens)};
    chunk.log_sum_exp = {at + 3 * shards * tokens, static_cast<std::size_t>(tokens)};
    chunk.begin = begin;
    return chunk;
}

// The chunks are those of the op's chain: four kernels each, the first of them (tokens, vocabulary shard, hidden).
std::vector<LossChunk> loss_chunks(const RankContext& c, const Op& op, const Operands& o) {
    const auto& kernels = std::get<Compute>(op.work).kernels;
    std::vector<LossChunk> chunks;
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < kernels.size(); k += 4) {
        const auto* gemm = std::get_if<Gemm>(&kernels[k].shape);
        if (gemm == nullptr || kernels.size() % 4 != 0 || kernels[k].count != 1)
            o.refuse("the loss is a chain of four kernels for each chunk of tokens");
        const std::int64_t columns = c.vocabulary().count;
        const std::span<float> space = o.workspace(floats_of_chunk(gemm->m, columns, c.shape.weight_shards));
        chunks.push_back(chunk_at(space, begin, gemm->m, columns, c.shape.weight_shards));
        begin += gemm->m;
    }
    if (begin != c.matmul_rows(op)) o.refuse("the chunks of the loss do not make the subsequence");
    return chunks;
}

// Everybody's partial results become known to all shards.
void exchange(const LossChunk& chunk, const RankContext& c, const std::string& call) {
    const std::size_t tokens = chunk.log_sum_exp.size();
    if (c.stand_ins != nullptr) {  // one's own in everybody's place
        const auto own = chunk.partials.subspan(static_cast<std::size_t>(c.weight_shard()) * tokens, tokens);
        for (std::size_t at = 0; at < chunk.partials.size(); at += tokens)
            if (chunk.partials.data() + at != own.data())
                std::copy(own.begin(), own.end(), chunk.partials.begin() + static_cast<std::ptrdiff_t>(at));
        return;
    }
    if (c.shards == nullptr) return;
    const std::span<float> all{reinterpret_cast<float*>(chunk.partials.data()), 3 * chunk.partials.size()};
    const auto member = c.shards->member_of(c.rank);
    c.shards->all_gather({member, call}, all.subspan(3 * tokens * member, 3 * tokens), all);
}

}  // namespace

BoundOp bind_embedding_forward(const RankContext& c, const Op& op) {
    const Operands o = operands_of(c, op);
    const std::span<float> part = weights_of(o, *c.layout.embedding_part);
    const ConstMatrixView table = table_at(c, part, c.layout.embedding.table), positions = positions_at(c, part);
    const MatrixView target = o.matrix(o.target(), c.matmul_rows(op), c.model().hidden);
    const std::int64_t rows = c.rows(op), first = c.first_row(op);
    const TokenRange tokens(c, op, c.inputs.inputs);
    const VocabularyShard shard = c.vocabulary();
    const Tokens begin = c.first_position(op);
    return [=](KernelClock& clock) {
        if (const auto bad = token_embedding_forward(tokens.ids(), shard, table, target))
            tokens.refuse(*bad, shard.vocabulary);
        // Once: by each shard to its own rows of the sums.
        if (positions.data != nullptr) add_learned_positions(begin, positions, target.row_range(first, rows));
        clock.lap();
    };
}

BoundOp bind_embedding_backward(const RankContext& c, const Op& op) {
    const Operands o = operands_of(c, op);
    const Operands::Accumulator gradients = o.accumulator(BufferKind::kGrads);
    const MatrixView table = table_at(c, gradients.values, c.layout.embedding.table);
    const MatrixView positions = positions_at(c, gradients.values);
    std::span<float> arriving = o.gathered();
    if (arriving.empty()) arriving = o.arriving();
    const ConstMatrixView dy = o.matrix(arriving, c.matmul_rows(op), c.model().hidden);
    const std::int64_t rows = c.rows(op), first = c.first_row(op);
    const TokenRange tokens(c, op, c.inputs.inputs);
    const VocabularyShard shard = c.vocabulary();
    const Tokens begin = c.first_position(op);
    return [=](KernelClock& clock) {
        sluice::begin(gradients);
        token_embedding_backward(tokens.ids(), shard, dy, table);
        if (positions.data != nullptr) learned_positions_backward(begin, dy.row_range(first, rows), positions);
        clock.lap();
    };
}

// After the last layer: its residual add, in place (what backward of the norm reads), and the norm. The statistics go
// to block 1 of the stream, which is free until the loss has been reduced; backward makes them again.
BoundOp bind_final_norm(const RankContext& c, const Op& op) {
    const Operands o = operands_of(c, op);
    const std::int64_t rows = c.rows(op), hidden = c.model().hidden;
    const MatrixView x = o.matrix(o.stream(0), rows, hidden);
    const std::span<float> statistics =
        o.stream(1).first(static_cast<std::size_t>(rows * statistics_per_row(c.model())));
    const MatrixView y = o.matrix(o.boundary(AccessMode::kWrite), rows, hidden);
    const NormWeights weights = final_norm(c, weights_of(o, *c.layout.head_part));
    ConstMatrixView middle;
    if (o.has(Tensor::kMiddleResidual, AccessMode::kRead))
        middle = o.matrix(o.tensor(Tensor::kMiddleResidual, AccessMode::kRead), rows, hidden);
    const Architecture& model = c.model();
    return [=, &model](KernelClock& clock) {
        if (middle.data != nullptr) {
            residual_add(middle, x, x);
            clock.lap();
        }
        norm_forward(model, x, weights, y, statistics);
        clock.lap();
    };
}

BoundOp bind_loss(const RankContext& c, const Op& op) {
    const Operands o = operands_of(c, op);
    const std::int64_t hidden = c.model().hidden;
    const bool own_table = c.layout.head.table != kAbsent;
    const ConstMatrixView table = own_table
                                      ? table_at(c, weights_of(o, *c.layout.head_part), c.layout.head.table)
                                      : table_at(c, weights_of(o, *c.layout.embedding_part), c.layout.embedding.table);
    const Operands::Accumulator head = o.accumulator(BufferKind::kGrads, 0);
    const Operands::Accumulator other = own_table ? Operands::Accumulator{} : o.accumulator(BufferKind::kGrads, 1);
    const MatrixView dtable =
        own_table ? table_at(c, head.values, c.layout.head.table) : table_at(c, other.values, c.layout.embedding.table);
    std::span<float> arriving = o.gathered();
    if (arriving.empty()) arriving = o.boundary(AccessMode::kRead);
    const ConstMatrixView x = o.matrix(arriving, c.matmul_rows(op), hidden);
    const MatrixView dx = o.matrix(o.target(), c.matmul_rows(op), hidden);
    const std::vector<LossChunk> chunks = loss_chunks(c, op, o);
    const TokenRange targets(c, op, c.inputs.targets);
    const VocabularyShard shard = c.vocabulary();
    const auto sequence = static_cast<std::size_t>(op.tag.sequence);
    const Tokens all{c.scenario.sequence.value * c.scenario.batch};
    const std::int64_t shards = c.shape.weight_shards;
    const std::size_t own = static_cast<std::size_t>(c.weight_shard());
    const std::string call = describe_call(op);
    StepFindings& findings = c.findings;
    return [=, &c, &findings](KernelClock& clock) {
        begin(head), begin(other);
        for (const LossChunk& chunk : chunks) {
            const std::int64_t tokens = chunk.logits.rows;
            const auto ids = targets.ids().subspan(static_cast<std::size_t>(chunk.begin), chunk.log_sum_exp.size());
            const ConstMatrixView rows = x.row_range(chunk.begin, tokens);
            if (shard.count > 0) gemm(kNo, rows, kYes, table, chunk.logits);
            clock.lap();
            const auto mine = chunk.partials.subspan(own * chunk.log_sum_exp.size(), chunk.log_sum_exp.size());
            if (const auto bad = loss_partials(chunk.logits, ids, shard, mine))
                targets.refuse(chunk.begin + *bad, shard.vocabulary);
            exchange(chunk, c, call);
            findings.loss_sum[sequence] += combine_loss_partials(chunk.partials, shards, chunk.log_sum_exp);
            logits_gradient(chunk.log_sum_exp, ids, shard, all, chunk.logits);
            clock.lap();
            gemm(kNo, chunk.logits, kNo, table, dx.row_range(chunk.begin, tokens));
            clock.lap();
            if (shard.count > 0) gemm(kYes, chunk.logits, kNo, rows, dtable, Store::kAdd);
            clock.lap();
        }
    };
}

BoundOp bind_final_norm_gradient(const RankContext& c, const Op& op) {
    const Operands o = operands_of(c, op);
    const std::int64_t rows = c.rows(op), hidden = c.model().hidden;
    const ConstMatrixView x = o.matrix(o.stream(0), rows, hidden), dy = o.matrix(o.stream(1), rows, hidden);
    const MatrixView dx = o.matrix(o.boundary(AccessMode::kAccumulate), rows, hidden);
    const std::span<float> statistics = o.workspace(rows * statistics_per_row(c.model()));
    const NormWeights weights = final_norm(c, weights_of(o, *c.layout.head_part));
    const Operands::Accumulator gradients = o.accumulator(BufferKind::kGrads);
    const NormWeights dweights = final_norm(c, gradients.values);
    const Architecture& model = c.model();
    return [=, &model](KernelClock& clock) {
        begin(gradients);
        norm_forward(model, x, weights, dx, statistics);  // for the statistics; its result is overwritten
        norm_backward(model, {dy, x, weights.weight, statistics, {}}, dx, dweights);
        clock.lap();
    };
}

}  // namespace sluice
