// The embedding, the final norm and the loss.
#include <cuda_runtime_api.h>

#include <optional>
#include <string>

#include "runtime/communicators.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/vocabulary_loss.h"
#include "runtime/cuda_decoder/bind_op.h"

namespace sluice::cuda {
namespace {

using enum Transpose;

struct HeadOp {
    OperandsOf<Bf16> operands;
    OperandsOf<float> floats;
};
HeadOp head_op(const CudaRank& c, const Op& op) { return {{c.schedule, c.arenas, op}, {c.schedule, c.arenas, op}}; }

template <class Element>
BasicMatrixView<Element> table_at(const CudaRank& c, std::span<Element> part, std::int64_t offset) {
    return {part.data() + offset, c.vocabulary().count, c.model().hidden};
}

template <class Element>
BasicMatrixView<Element> positions_at(const CudaRank& c, std::span<Element> part) {
    if (c.layout.embedding.positions == kAbsent) return {};
    return {part.data() + c.layout.embedding.positions, c.scenario.sequence.value, c.model().hidden};
}

std::span<Bf16> weights_of(const OperandsOf<Bf16>& o, const ParameterPart& part) {
    return o.of_kind(BufferKind::kWeights)
        .subspan(static_cast<std::size_t>(part.offset), static_cast<std::size_t>(part.elements));
}

NormWeights final_norm(const CudaRank& c, std::span<Bf16> part) {
    const HeadOffsets& at = c.layout.head;
    return {part.data() + at.norm, at.norm_bias == kAbsent ? nullptr : part.data() + at.norm_bias,
            static_cast<float>(c.model().norm_epsilon)};
}

// Where the tokens of an op's rows begin among those of the step.
std::int64_t first_token(const CudaRank& c, const Op& op) {
    return op.tag.sequence * c.scenario.sequence.value + c.first_position(op).value - c.first_row(op);
}

// What a chunk of the loss needs per token beside its logits.
struct LossSpace {
    std::span<LossPartial> partials;  // of all shards, one behind the other
    std::span<LossPartial> own;       // this shard's among them
    float* log_sum_exp = nullptr;
};

LossSpace loss_space(const CudaRank& c, const OpBytes& o, std::int64_t tokens) {
    const auto count = static_cast<std::size_t>(tokens);
    const std::size_t partials = count * static_cast<std::size_t>(c.shape.weight_shards);
    if (partials * sizeof(LossPartial) + count * sizeof(float) > c.loss_space.size())
        o.refuse("a chunk of the loss has too many tokens");
    LossSpace space;
    space.partials = {reinterpret_cast<LossPartial*>(c.loss_space.data()), partials};
    space.own = space.partials.subspan(static_cast<std::size_t>(c.weight_shard()) * count, count);
    space.log_sum_exp = reinterpret_cast<float*>(c.loss_space.data() + partials * sizeof(LossPartial));
    return space;
}

// Everybody's partial results become known to all shards, in a group that nothing else uses.
struct LossExchange {
    Transport* transport = nullptr;  // nothing where nobody shares out the vocabulary
    GroupId group{};
    OpId op{};
    std::string what;

    LossExchange(const CudaRank& c, const Op& of) {
        if (c.shape.weight_shards == 1) return;
        if (c.transport == nullptr) OpBytes(c.schedule, c.arenas, of).refuse("there is nobody to talk to");
        transport = c.transport, group = loss_group(c.schedule, c.shape.shards, c.rank);
        op = of.id, what = describe_call(of);
    }
    void operator()(Stream stream, const LossSpace& space) const {
        if (transport == nullptr) return;
        transport->all_gather({op, what, stream}, group, std::as_bytes(space.own),
                              std::as_writable_bytes(space.partials));
    }
};

// A chunk of tokens: logits in the workspace, which become their gradient in place.
struct LossChunk {
    Fp32Matrix logits;
    std::int64_t begin = 0;  // first token, of the op's rows
    LossSpace space;
    Bf16Matrix dx_rows;
    std::optional<Product<float>> forward, dtable;  // nothing where the shard has none of the vocabulary
    std::optional<Product<Bf16>> dx;

    void make_logits(Stream stream) const {
        if (forward) (*forward)(stream);
    }
    void make_dx(Stream stream) const {
        if (dx) return (*dx)(stream);
        check(cudaMemsetAsync(dx_rows.data, 0, static_cast<std::size_t>(dx_rows.rows * dx_rows.columns) * sizeof(Bf16),
                              stream),
              "clear a gradient");
    }
    void add_dtable(Stream stream) const {
        if (dtable) (*dtable)(stream);
    }
};

Bf16Matrix gradient_in_place(Fp32Matrix logits) {
    return {reinterpret_cast<Bf16*>(logits.data), logits.rows, logits.columns, 2 * logits.stride};
}

struct LossOperands {
    ConstBf16Matrix x, table;
    Bf16Matrix dx;
    Fp32Matrix dtable;
};

std::vector<LossChunk> loss_chunks(const CudaRank& c, const Op& op, const HeadOp& h, const LossOperands& in) {
    const auto& kernels = std::get<Compute>(op.work).kernels;
    std::vector<LossChunk> chunks;
    std::int64_t begin = 0;
    for (std::size_t k = 0; k < kernels.size(); k += 4) {
        const auto* gemm = std::get_if<Gemm>(&kernels[k].shape);
        if (gemm == nullptr || kernels.size() % 4 != 0 || kernels[k].count != 1)
            h.operands.refuse("the loss is a chain of four kernels for each chunk of tokens");
        const std::int64_t tokens = gemm->m, columns = c.vocabulary().count;
        const Fp32Matrix logits{h.floats.workspace(tokens * columns).data(), tokens, columns};
        const ConstBf16Matrix rows = in.x.row_range(begin, tokens), dlogits = gradient_in_place(logits);
        LossChunk& chunk = chunks.emplace_back();
        chunk.logits = logits, chunk.begin = begin, chunk.dx_rows = in.dx.row_range(begin, tokens);
        chunk.space = loss_space(c, h.operands.bytes(), tokens);
        begin += tokens;
        if (columns == 0) continue;
        chunk.forward.emplace(c, kNo, rows, kYes, in.table, logits);
        chunk.dtable.emplace(c, kYes, dlogits, kNo, rows, in.dtable, Store::kAdd);
        chunk.dx.emplace(c, kNo, dlogits, kNo, in.table, chunk.dx_rows);
    }
    if (begin != c.matmul_rows(op)) h.operands.refuse("the chunks of the loss do not make the subsequence");
    return chunks;
}

}  // namespace

BoundCudaOp bind_embedding_forward(const CudaRank& c, const Op& op) {
    const HeadOp h = head_op(c, op);
    const std::span<Bf16> part = weights_of(h.operands, *c.layout.embedding_part);
    const Bf16Matrix table = table_at(c, part, c.layout.embedding.table), positions = positions_at(c, part);
    const Bf16Matrix target = h.operands.matrix(h.operands.target(), c.matmul_rows(op), c.model().hidden);
    const Bf16Matrix own = target.row_range(c.first_row(op), c.rows(op));
    const TokenId* const ids = c.tokens_of_step.inputs + first_token(c, op);
    const VocabularyShard shard = c.vocabulary();
    const Tokens begin = c.first_position(op);
    return [=](StreamClock& clock) {
        token_embedding_forward(clock.stream(), ids, shard, table, target);
        // Once: by each shard to its own rows of the sums.
        if (positions.data != nullptr) add_learned_positions(clock.stream(), begin, positions, own);
        clock.lap();
    };
}

BoundCudaOp bind_embedding_backward(const CudaRank& c, const Op& op) {
    const HeadOp h = head_op(c, op);
    const Accumulator gradients = h.floats.accumulator(BufferKind::kGrads);
    const Fp32Matrix table = table_at(c, gradients.values, c.layout.embedding.table);
    const Fp32Matrix positions = positions_at(c, gradients.values);
    std::span<Bf16> arriving = h.operands.gathered();
    if (arriving.empty()) arriving = h.operands.arriving();
    const ConstBf16Matrix dy = h.operands.matrix(arriving, c.matmul_rows(op), c.model().hidden);
    const ConstBf16Matrix own = dy.row_range(c.first_row(op), c.rows(op));
    const DeviceSortedTokens& sorted =
        c.tokens_of_step
            .sorted[static_cast<std::size_t>(op.tag.sequence)][static_cast<std::size_t>(op.tag.subsequence)];
    const Tokens begin = c.first_position(op);
    return [=, &sorted](StreamClock& clock) {
        cuda::begin(clock.stream(), gradients);
        token_embedding_backward(clock.stream(), sorted, dy, table);
        if (positions.data != nullptr) learned_positions_backward(clock.stream(), begin, own, positions);
        clock.lap();
    };
}

// After the last layer: its residual add, in place (what backward of the norm reads), and the norm, in one kernel. The
// statistics go to block 1 of the stream, which is free until the loss has been reduced; backward makes them again.
BoundCudaOp bind_final_norm(const CudaRank& c, const Op& op) {
    const HeadOp h = head_op(c, op);
    const std::int64_t rows = c.rows(op), hidden = c.model().hidden;
    const Bf16Matrix x = h.operands.matrix(h.operands.stream(0), rows, hidden);
    float* const statistics = h.floats.stream(1).data();
    const Bf16Matrix y = h.operands.matrix(h.operands.boundary(AccessMode::kWrite), rows, hidden);
    const NormWeights weights = final_norm(c, weights_of(h.operands, *c.layout.head_part));
    Bf16Matrix middle;
    if (h.operands.has(Tensor::kMiddleResidual, AccessMode::kRead))
        middle = h.operands.matrix(h.operands.tensor(Tensor::kMiddleResidual, AccessMode::kRead), rows, hidden);
    return [=](StreamClock& clock) {
        if (middle.data != nullptr) {
            clock.lap();
            residual_norm_forward(clock.stream(), middle, x, x, weights, y, statistics);
        } else {
            norm_forward(clock.stream(), x, weights, y, statistics);
        }
        clock.lap();
    };
}

BoundCudaOp bind_loss(const CudaRank& c, const Op& op) {
    const HeadOp h = head_op(c, op);
    const std::int64_t hidden = c.model().hidden, tokens = c.matmul_rows(op);
    const bool own_table = c.layout.head.table != kAbsent;
    const Accumulator head = h.floats.accumulator(BufferKind::kGrads, 0);
    const Accumulator other = own_table ? Accumulator{} : h.floats.accumulator(BufferKind::kGrads, 1);
    std::span<Bf16> arriving = h.operands.gathered();
    if (arriving.empty()) arriving = h.operands.boundary(AccessMode::kRead);
    LossOperands in;
    in.table = own_table ? table_at(c, weights_of(h.operands, *c.layout.head_part), c.layout.head.table)
                         : table_at(c, weights_of(h.operands, *c.layout.embedding_part), c.layout.embedding.table);
    in.dtable =
        own_table ? table_at(c, head.values, c.layout.head.table) : table_at(c, other.values, c.layout.embedding.table);
    in.x = h.operands.matrix(arriving, tokens, hidden);
    in.dx = h.operands.matrix(h.operands.target(), tokens, hidden);
    const std::vector<LossChunk> chunks = loss_chunks(c, op, h, in);
    const LossExchange exchange(c, op);
    const std::int64_t shards = c.shape.weight_shards;
    const TokenId* const targets = c.tokens_of_step.targets + first_token(c, op);
    const VocabularyShard shard = c.vocabulary();
    const Tokens all{c.scenario.sequence.value * c.scenario.batch};
    double* const loss_sum = c.loss_sums + op.tag.sequence;
    return [=](StreamClock& clock) {
        const Stream stream = clock.stream();
        cuda::begin(stream, head);
        if (other.begins) cuda::begin(stream, other);
        for (const LossChunk& chunk : chunks) {
            const TokenId* const ids = targets + chunk.begin;
            chunk.make_logits(stream);
            clock.lap();
            loss_partials(stream, chunk.logits, ids, shard, chunk.space.own.data());
            exchange(stream, chunk.space);
            combine_loss_partials(stream, chunk.space.partials.data(), shards, chunk.logits.rows,
                                  chunk.space.log_sum_exp, loss_sum);
            logits_gradient(stream, chunk.space.log_sum_exp, ids, shard, all, chunk.logits);
            clock.lap();
            chunk.make_dx(stream);
            clock.lap();
            chunk.add_dtable(stream);
            clock.lap();
        }
    };
}

BoundCudaOp bind_final_norm_gradient(const CudaRank& c, const Op& op) {
    const HeadOp h = head_op(c, op);
    const std::int64_t rows = c.rows(op), hidden = c.model().hidden;
    const Bf16Matrix x = h.operands.matrix(h.operands.stream(0), rows, hidden);
    const Bf16Matrix dy = h.operands.matrix(h.operands.stream(1), rows, hidden);
    const Bf16Matrix dx = h.operands.matrix(h.operands.boundary(AccessMode::kAccumulate), rows, hidden);
    float* const statistics = h.floats.workspace(rows * statistics_per_row(c.model())).data();
    const NormWeights weights = final_norm(c, weights_of(h.operands, *c.layout.head_part));
    const Accumulator gradients = h.floats.accumulator(BufferKind::kGrads);
    const HeadOffsets& at = c.layout.head;
    const NormGradients of{gradients.values.data() + at.norm,
                           at.norm_bias == kAbsent ? nullptr : gradients.values.data() + at.norm_bias};
    const Scratch scratch = c.scratch;
    return [=](StreamClock& clock) {
        cuda::begin(clock.stream(), gradients);
        norm_forward(clock.stream(), x, weights, dx, statistics);  // for the statistics; its result is overwritten
        norm_backward(clock.stream(), {dy, x, weights, statistics, {}}, dx, of, scratch);
        clock.lap();
    };
}

}  // namespace sluice::cuda
