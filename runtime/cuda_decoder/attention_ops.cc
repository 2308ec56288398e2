#include "runtime/cuda/attention.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/rotary.h"
#include "runtime/cuda_decoder/bind_op.h"

namespace sluice::cuda {
namespace {

using enum Transpose;

// One subsequence's part in the attention of a layer.
struct AttentionParts {
    AttentionShape shape;
    RotaryShape rotary;
    bool turns = false;
    Bf16Matrix query;
    Bf16Matrix seen;  // K and V of all tokens so far: [token][K or V][head][head_dim]
    std::int64_t kv_width = 0;
    std::int64_t query_gradient_stride = 0;

    AttentionOperands operands() const {
        return {query, seen.column_range(0, kv_width), seen.column_range(kv_width, kv_width)};
    }
    Bf16Matrix own_kv() const { return seen.row_range(shape.begin.value, shape.length.value); }
    AttentionPlans::Strides strides() const { return {query.stride, seen.stride, query_gradient_stride}; }
};

// Of several accesses (the own block, and all so far) the one that has them all.
template <class Element>
std::span<Element> seen_values(const OperandsOf<Element>& o, BufferKind kind, std::int64_t count) {
    for (std::size_t k = 0;; ++k) {
        const std::span<Element> all = o.of_kind(kind, k);
        if (static_cast<std::int64_t>(all.size()) == count) return all;
    }
}

// Without weights: with Ulysses attention itself has none.
LayerOp attention_op(const CudaRank& c, const Op& op) {
    return {c, op, {c.schedule, c.arenas, op}, {c.schedule, c.arenas, op}, LayerParametersOf<Bf16>(c, nullptr)};
}

AttentionParts attention_parts(const LayerOp& l, bool with_kv = true) {
    const CudaRank& c = l.rank;
    const RunSubsequence& sub = c.subsequence(l.op);
    const std::int64_t d = c.model().head_dim, end = sub.begin.value + sub.length.value;
    AttentionParts p;
    p.shape = {sub.begin, sub.length, c.heads(), c.kv_heads(), d};
    p.rotary = {d, d, c.model().rope_theta};
    p.turns = c.model().positions == Positions::kRope;
    p.query = l.operands.matrix(l.operands.tensor(Tensor::kQuery), sub.length.value, c.query_width());
    p.kv_width = c.kv_width();
    p.query_gradient_stride = c.exchanges_heads() ? p.query.stride : p.query.columns + 2 * p.kv_width;  // BackwardParts
    if (with_kv)
        p.seen = l.operands.matrix(seen_values(l.operands, BufferKind::kKv, end * 2 * p.kv_width), end, 2 * p.kv_width);
    return p;
}

// The query of a subsequence; the turn is a kernel of its own.
struct MakeQuery {
    Product<Bf16> product;
    std::span<Bf16> bias;
    AttentionParts parts;

    MakeQuery(const LayerOp& l, const AttentionParts& p)
        : product(l.rank, kNo, normed_input(l, Tensor::kNorm1Output), kYes, l.weights.query(), p.query),
          bias(l.weights.query_bias()),
          parts(p) {}
    void make(Stream stream) const {
        product(stream);
        if (!bias.empty()) add_bias(stream, bias.data(), parts.query);
    }
    void turn(Stream stream) const {
        rotate(stream, parts.rotary, parts.shape.begin, RotationSense::kForward, parts.query);
    }
};

// Behind the query, K and V: attention and its projection.
struct AttendAndProject {
    AttentionPlans& plans;
    AttentionParts parts;
    AttentionSaved results;
    std::byte* workspace;
    Product<Bf16> projection;
    std::span<Bf16> bias;
    Bf16Matrix own;  // the shard's rows of the sums

    AttendAndProject(const LayerOp& l, const AttentionParts& p, Bf16Matrix out, Bf16Matrix target)
        : plans(l.rank.attention),
          parts(p),
          results{out, l.floats.tensor(Tensor::kLogSumExp).data()},
          projection(l.rank, kNo, out, kYes, l.weights.projection(), target),
          bias(l.weights.projection_bias()),
          own(target.row_range(l.rank.first_row(l.op), l.rank.rows(l.op))) {
        plans.prepare(p.shape, p.strides());
        WorkspaceParts space(l.operands.bytes());
        workspace = space.bytes(plans.forward_workspace(p.shape));
    }
    void operator()(StreamClock& clock) const {
        plans.forward(clock.stream(), parts.shape, parts.operands(), results, workspace);
        clock.lap();
        projection(clock.stream());
        // Once: by each shard to its own rows of the sums.
        if (!bias.empty()) add_bias(clock.stream(), bias.data(), own);
        clock.lap();
    }
};

AttendAndProject attend_and_project(const LayerOp& l, const AttentionParts& p) {
    const std::int64_t tokens = l.rank.tokens(l.op);
    return {l, p, l.operands.matrix(l.operands.tensor(Tensor::kAttentionOutput), tokens, l.rank.query_width()),
            l.operands.matrix(l.operands.target(), tokens, l.rank.model().hidden)};
}

// The last of the own keys' gradients, and what later subsequences have added to theirs.
struct LastKeyGradients {
    ConstFp32Matrix key_sum, value_sum;  // data null: nothing was added
    OwnKeyGradients last;

    // `own`: the accumulators' rows, K beside V.
    LastKeyGradients(const AttentionPlans& plans, const AttentionParts& p, const std::byte* workspace, Fp32Matrix own,
                     bool begins)
        : last(plans.own_gradients(p.shape, workspace)) {
        if (begins) return;
        key_sum = own.column_range(0, p.kv_width), value_sum = own.column_range(p.kv_width, p.kv_width);
    }
    // Turned back and rounded, K beside V. No later op reads the accumulators' rows, so that they are left as they are.
    void finish(Stream stream, const AttentionParts& p, bool turn, Bf16Matrix out) const {
        rotate_and_round(stream, p.rotary, p.shape.begin, RotationSense::kBackward, turn ? p.kv_width : 0, key_sum,
                         last.key, out.column_range(0, p.kv_width));
        rotate_and_round(stream, p.rotary, p.shape.begin, RotationSense::kBackward, 0, value_sum, last.value,
                         out.column_range(p.kv_width, p.kv_width));
    }
};

// Behind each other in the workspace of backward, where the weight gradient finds them again. dQ stands beside the own
// dK and dV, as the weights do: one product for all three.
struct BackwardParts {
    Bf16Matrix dout, dqkv, dq, own_dkv;
    BackwardParts(WorkspaceParts& space, const CudaRank& c, const Op& op)
        : dout(space.bf16(c.tokens(op), c.query_width())),
          dqkv(space.bf16(c.tokens(op), c.query_width() + 2 * c.kv_width())),
          dq(dqkv.column_range(0, c.query_width())),
          own_dkv(dqkv.column_range(c.query_width(), 2 * c.kv_width())) {}
};

}  // namespace

BoundCudaOp bind_attention_forward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const AttentionParts p = attention_parts(l);
    const MakeQuery query(l, p);
    const Bf16Matrix kv = p.own_kv();
    const Product key_value(c, kNo, normed_input(l, Tensor::kNorm1Output), kYes, l.weights.key_value(), kv);
    const std::span<Bf16> kv_bias = l.weights.key_value_bias();
    const AttendAndProject attend = attend_and_project(l, p);
    return [=](StreamClock& clock) {
        const Stream stream = clock.stream();
        query.make(stream);
        key_value(stream);
        if (!kv_bias.empty()) add_bias(stream, kv_bias.data(), kv);
        clock.lap();
        if (p.turns) {
            query.turn(stream);
            rotate(stream, p.rotary, p.shape.begin, RotationSense::kForward, kv.column_range(0, p.kv_width));
            clock.lap();
        }
        attend(clock);
    };
}

// K and V are there, turned.
BoundCudaOp bind_attention_again(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const AttentionParts p = attention_parts(l);
    const MakeQuery query(l, p);
    const AttendAndProject attend = attend_and_project(l, p);
    return [=](StreamClock& clock) {
        query.make(clock.stream());
        clock.lap();
        if (p.turns) {
            query.turn(clock.stream());
            clock.lap();
        }
        attend(clock);
    };
}

BoundCudaOp bind_query_again(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const MakeQuery query(l, attention_parts(l, false));
    return [=](StreamClock& clock) {
        query.make(clock.stream());
        clock.lap();
        if (!query.parts.turns) return;
        query.turn(clock.stream());
        clock.lap();
    };
}

// Leaves dQ and the own part of dK and dV in bf16 in the workspace, for the weight gradient. dK and dV of earlier keys
// are summed inside the call of attention: that kernel of the chain takes no time of its own. Those of the own keys are
// complete with this call and summed where they are turned back.
BoundCudaOp bind_attention_backward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const AttentionParts p = attention_parts(l);
    const LayerGradients g = layer_gradients(l);
    const std::int64_t tokens = c.tokens(op), width = c.query_width(), end = p.seen.rows;
    const ConstBf16Matrix dy = output_gradient(l);
    const Bf16Matrix out = l.operands.matrix(l.operands.tensor(Tensor::kAttentionOutput), tokens, width);
    const float* const log_sum_exp = l.floats.tensor(Tensor::kLogSumExp).data();
    AttentionPlans& plans = c.attention;
    plans.prepare(p.shape, p.strides());
    WorkspaceParts space(l.operands.bytes());
    const BackwardParts parts(space, c, op);
    std::byte* const workspace = space.bytes(plans.backward_workspace(p.shape));
    const Accumulator dkv = l.floats.accumulator(BufferKind::kDkv);
    const Fp32Matrix dseen = l.floats.matrix(dkv.values, end, 2 * p.kv_width);
    const Fp32Matrix own = dseen.row_range(p.shape.begin.value, tokens);
    const LastKeyGradients last(plans, p, workspace, own, dkv.begins);
    const Bf16Matrix target = l.operands.matrix(l.operands.target(), tokens, c.model().hidden);
    const Product data(c, kNo, dy, kNo, l.weights.projection(), parts.dout);
    const Product weight(c, kYes, dy, kNo, out, g.of.projection(), Store::kAdd);
    const Product input(c, kNo, parts.dqkv, kNo, l.weights.qkv(), target);
    const std::span<float> dbias = g.of.projection_bias();
    const ConstBf16Matrix own_dy = dy.row_range(c.first_row(op), c.rows(op));
    const Scratch scratch = c.scratch;
    return [=, &plans](StreamClock& clock) {
        const Stream stream = clock.stream();
        g.begin(stream);
        data(stream);
        clock.lap();
        weight(stream);
        if (!dbias.empty()) bias_backward(stream, own_dy, dbias.data(), scratch);
        clock.lap();
        plans.backward(stream, p.shape, p.operands(), {out, log_sum_exp}, parts.dout,
                       {parts.dq, dseen.column_range(0, p.kv_width), dseen.column_range(p.kv_width, p.kv_width),
                        dkv.begins, p.turns ? std::optional(p.rotary) : std::nullopt, false},
                       workspace);
        clock.lap();
        clock.lap();
        // dQ was turned back where it was summed.
        last.finish(stream, p, p.turns, parts.own_dkv);
        if (p.turns) clock.lap();
        input(stream);
        clock.lap();
    };
}

BoundCudaOp bind_attention_weight(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const LayerGradients g = layer_gradients(l);
    WorkspaceParts space(l.operands.bytes());
    const BackwardParts parts(space, c, op);
    const ConstBf16Matrix x = normed_input(l, Tensor::kNorm1Output);
    const Product weight(c, kYes, parts.dqkv, kNo, x, g.of.qkv(), Store::kAdd);
    const std::span<float> dbias = g.of.qkv_bias();
    const Scratch scratch = c.scratch;
    return [=](StreamClock& clock) {
        const Stream stream = clock.stream();
        g.begin(stream);
        weight(stream);
        if (!dbias.empty()) bias_backward(stream, parts.dqkv, dbias.data(), scratch);
        clock.lap();
    };
}

// Ulysses: the query and the own block of K and V, turned, have come from all members; the output goes back to them.
BoundCudaOp bind_attention_of_heads_forward(const CudaRank& c, const Op& op) {
    const LayerOp l = attention_op(c, op);
    const AttentionParts p = attention_parts(l);
    const Bf16Matrix out =
        l.operands.matrix(l.operands.tensor(Tensor::kAttentionOutput), c.tokens(op), c.query_width());
    float* const log_sum_exp = l.floats.tensor(Tensor::kLogSumExp).data();
    AttentionPlans& plans = c.attention;
    plans.prepare(p.shape, p.strides());
    WorkspaceParts space(l.operands.bytes());
    std::byte* const workspace = space.bytes(plans.forward_workspace(p.shape));
    return [=, &plans](StreamClock& clock) {
        plans.forward(clock.stream(), p.shape, p.operands(), {out, log_sum_exp}, workspace);
        clock.lap();
    };
}

// Leaves dQ, and dK and dV of the own subsequence, where they are sent from.
BoundCudaOp bind_attention_of_heads_backward(const CudaRank& c, const Op& op) {
    const LayerOp l = attention_op(c, op);
    const AttentionParts p = attention_parts(l);
    const std::int64_t tokens = c.tokens(op), width = c.query_width();
    const ConstBf16Matrix dout = l.operands.matrix(l.operands.gathered(), tokens, width);
    const Bf16Matrix out = l.operands.matrix(l.operands.tensor(Tensor::kAttentionOutput), tokens, width);
    const float* const log_sum_exp = l.floats.tensor(Tensor::kLogSumExp).data();
    AttentionPlans& plans = c.attention;
    plans.prepare(p.shape, p.strides());
    WorkspaceParts space(l.operands.bytes());
    std::byte* const workspace = space.bytes(plans.backward_workspace(p.shape));
    const Accumulator dkv = l.floats.accumulator(BufferKind::kDkv);
    const Fp32Matrix dseen = l.floats.matrix(dkv.values, p.seen.rows, 2 * p.kv_width);
    const Fp32Matrix own = dseen.row_range(p.shape.begin.value, tokens);
    const std::span<Bf16> sent = l.operands.of_kind(BufferKind::kComm, AccessMode::kWrite);
    const Bf16Matrix all = l.operands.matrix(sent, tokens, width + 2 * p.kv_width);  // for its size: q's rows, then
                                                                                     // k's and v's
    const Bf16Matrix dq{all.data, tokens, width}, own_dkv{all.data + tokens * width, tokens, 2 * p.kv_width};
    const LastKeyGradients last(plans, p, workspace, own, dkv.begins);
    return [=, &plans](StreamClock& clock) {
        const Stream stream = clock.stream();
        plans.backward(stream, p.shape, p.operands(), {out, log_sum_exp}, dout,
                       {dq, dseen.column_range(0, p.kv_width), dseen.column_range(p.kv_width, p.kv_width), dkv.begins,
                        std::nullopt, false},
                       workspace);
        clock.lap();
        last.finish(stream, p, false, own_dkv);  // turned back where they arrive
        clock.lap();
    };
}

}  // namespace sluice::cuda
