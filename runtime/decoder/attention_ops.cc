#include <algorithm>

#include "runtime/cpu/bias.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/gemm.h"
#include "runtime/decoder/bind_op.h"

namespace sluice {
namespace {

using enum Transpose;

// One subsequence's part in the attention of a layer.
struct AttentionParts {
    AttentionShape shape;
    RotaryShape rotary;
    std::span<const float> table;  // of the subsequence's positions; empty without RoPE
    MatrixView query;
    MatrixView seen;  // K and V of all tokens so far: [token][K or V][head][head_dim]
    std::int64_t kv_width = 0;

    AttentionOperands operands() const {
        return {query, seen.column_range(0, kv_width), seen.column_range(kv_width, kv_width)};
    }
    MatrixView own_rows(MatrixView all) const { return all.row_range(shape.begin.value, shape.length.value); }
    bool turns() const { return !table.empty(); }
};

std::span<float> seen_floats(const Operands& o, BufferKind kind, std::int64_t count) {
    // Of several accesses (the own block, and all so far) the one that has them all.
    for (std::size_t k = 0;; ++k) {
        const std::span<float> all = o.of_kind(kind, k);
        if (static_cast<std::int64_t>(all.size()) == count) return all;
    }
}

AttentionParts attention_parts(const RankContext& c, const Op& op, const Operands& o, bool with_kv = true) {
    const RunSubsequence& sub = c.subsequence(op);
    const std::int64_t d = c.model().head_dim, end = sub.begin.value + sub.length.value;
    AttentionParts p;
    p.shape = {sub.begin, sub.length, c.heads(), c.kv_heads(), d};
    p.rotary = {d, d, c.model().rope_theta};
    if (!c.rotary.empty())
        p.table = c.rotary.subspan(static_cast<std::size_t>(sub.begin.value * d),
                                   static_cast<std::size_t>(sub.length.value * d));
    p.query = o.matrix(o.tensor(Tensor::kQuery), sub.length.value, c.query_width());
    p.kv_width = c.kv_width();
    if (with_kv) p.seen = o.matrix(seen_floats(o, BufferKind::kKv, end * 2 * p.kv_width), end, 2 * p.kv_width);
    return p;
}

// The query of a subsequence; the turn is a kernel of its own.
void make_query(const AttentionParts& p, ConstMatrixView x, const LayerParameters& w) {
    gemm(kNo, x, kYes, w.query(), p.query);
    if (!w.query_bias().empty()) add_bias(w.query_bias(), p.query);
}

// Behind the query, K and V: attention and its projection.
struct AttendAndProject {
    AttentionParts parts;
    AttentionResult<float> results;
    LayerParameters weights;
    std::span<float> workspace;
    MatrixView target;  // partial sums of all tokens
    std::int64_t first = 0, rows = 0;

    void operator()(KernelClock& clock) const {
        attention_forward(parts.shape, parts.operands(), results, workspace);
        clock.lap();
        gemm(kNo, results.out, kYes, weights.projection(), target);
        // Once: by each shard to its own rows of the sums.
        const std::span<const float> bias = weights.projection_bias();
        if (!bias.empty()) add_bias(bias, target.row_range(first, rows));
        clock.lap();
    }
};

AttendAndProject attend_and_project(const LayerOp& l, const AttentionParts& p) {
    const RankContext& c = l.context;
    const Operands& o = l.operands;
    const std::int64_t tokens = c.tokens(l.op);
    const MatrixView out = o.matrix(o.tensor(Tensor::kAttentionOutput), tokens, c.query_width());
    return {p,
            {out, o.tensor(Tensor::kLogSumExp)},
            l.weights,
            o.workspace(attention_forward_workspace(p.shape).value / 4),
            o.matrix(o.target(), tokens, c.model().hidden),
            c.first_row(l.op),
            c.rows(l.op)};
}

}  // namespace

BoundOp bind_attention_forward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const AttentionParts p = attention_parts(c, op, l.operands);
    const LayerParameters w = l.weights;
    const ConstMatrixView x = normed_input(l, Tensor::kNorm1Output);
    const AttendAndProject attend = attend_and_project(l, p);
    return [=](KernelClock& clock) {
        const MatrixView kv = p.own_rows(p.seen);
        make_query(p, x, w);
        gemm(kNo, x, kYes, w.key_value(), kv);
        if (!w.key_value_bias().empty()) add_bias(w.key_value_bias(), kv);
        clock.lap();
        if (p.turns()) {
            rotate(p.rotary, p.table, RotationSense::kForward, p.query);
            rotate(p.rotary, p.table, RotationSense::kForward, kv.column_range(0, p.kv_width));
            clock.lap();
        }
        attend(clock);
    };
}

// K and V are there, turned.
BoundOp bind_attention_again(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const AttentionParts p = attention_parts(c, op, l.operands);
    const LayerParameters w = l.weights;
    const ConstMatrixView x = normed_input(l, Tensor::kNorm1Output);
    const AttendAndProject attend = attend_and_project(l, p);
    return [=](KernelClock& clock) {
        make_query(p, x, w);
        clock.lap();
        if (p.turns()) {
            rotate(p.rotary, p.table, RotationSense::kForward, p.query);
            clock.lap();
        }
        attend(clock);
    };
}

BoundOp bind_query_again(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const AttentionParts p = attention_parts(c, op, l.operands, false);
    const LayerParameters w = l.weights;
    const ConstMatrixView x = normed_input(l, Tensor::kNorm1Output);
    return [=](KernelClock& clock) {
        make_query(p, x, w);
        clock.lap();
        if (!p.turns()) return;
        rotate(p.rotary, p.table, RotationSense::kForward, p.query);
        clock.lap();
    };
}

// Leaves dQ behind the gradient of the output in the workspace, for the weight gradient.
BoundOp bind_attention_backward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Operands& o = l.operands;
    const AttentionParts p = attention_parts(c, op, o);
    const LayerParameters w = l.weights;
    const LayerGradients g = layer_gradients(l);
    const std::int64_t tokens = c.tokens(op), rows = c.rows(op), first = c.first_row(op), hidden = c.model().hidden;
    const std::int64_t width = c.query_width(), end = p.seen.rows;
    const ConstMatrixView dy = output_gradient(l);
    const ConstMatrixView out = o.matrix(o.tensor(Tensor::kAttentionOutput), tokens, width);
    const std::span<const float> log_sum_exp = o.tensor(Tensor::kLogSumExp);
    const std::int64_t scratch = attention_backward_workspace(p.shape).value / 4;
    const std::span<float> space = o.workspace(2 * tokens * width + scratch);
    const MatrixView dout{space.data(), tokens, width}, dq{space.data() + tokens * width, tokens, width};
    const std::span<float> workspace = space.subspan(static_cast<std::size_t>(2 * tokens * width));
    const Operands::Accumulator dkv = o.accumulator(BufferKind::kDkv);
    const MatrixView dseen = o.matrix(dkv.values, end, 2 * p.kv_width);
    const MatrixView target = o.matrix(o.target(), tokens, hidden);
    return [=](KernelClock& clock) {
        g.begin();
        if (dkv.begins) std::fill(dkv.values.begin(), dkv.values.end(), 0.0F);
        gemm(kNo, dy, kNo, w.projection(), dout);
        clock.lap();
        gemm(kYes, dy, kNo, out, g.of.projection(), Store::kAdd);
        if (!g.of.projection_bias().empty()) bias_backward(dy.row_range(first, rows), g.of.projection_bias());
        clock.lap();
        attention_backward(p.shape, p.operands(), {out, log_sum_exp}, dout,
                           {dq, dseen.column_range(0, p.kv_width), dseen.column_range(p.kv_width, p.kv_width)},
                           workspace);
        clock.lap();
        clock.lap();                               // dK and dV were added where they belong
        const MatrixView own = p.own_rows(dseen);  // complete: all later subsequences have been here
        if (p.turns()) {
            rotate(p.rotary, p.table, RotationSense::kBackward, dq);
            rotate(p.rotary, p.table, RotationSense::kBackward, own.column_range(0, p.kv_width));
            clock.lap();
        }
        gemm(kNo, dq, kNo, w.query(), target);
        gemm(kNo, own, kNo, w.key_value(), target, Store::kAdd);
        clock.lap();
    };
}

BoundOp bind_attention_weight(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Operands& o = l.operands;
    const LayerGradients g = layer_gradients(l);
    const std::int64_t tokens = c.tokens(op), width = c.query_width();
    const ConstMatrixView x = normed_input(l, Tensor::kNorm1Output);
    const ConstMatrixView dq{o.workspace(2 * tokens * width).data() + tokens * width, tokens, width};
    const ConstMatrixView dkv = o.matrix(o.of_kind(BufferKind::kDkv), tokens, 2 * c.kv_width());
    return [=](KernelClock& clock) {
        g.begin();
        gemm(kYes, dq, kNo, x, g.of.query(), Store::kAdd);
        gemm(kYes, dkv, kNo, x, g.of.key_value(), Store::kAdd);
        if (!g.of.query_bias().empty()) {
            bias_backward(dq, g.of.query_bias());
            bias_backward(dkv, g.of.key_value_bias());
        }
        clock.lap();
    };
}

// Ulysses: the query and the own block of K and V, turned, have come from all members; the output goes back to them.
BoundOp bind_attention_of_heads_forward(const RankContext& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    const AttentionParts p = attention_parts(c, op, o);
    const MatrixView out = o.matrix(o.tensor(Tensor::kAttentionOutput), c.tokens(op), c.query_width());
    const std::span<float> log_sum_exp = o.tensor(Tensor::kLogSumExp);
    const std::span<float> workspace = o.workspace(attention_forward_workspace(p.shape).value / 4);
    return [=](KernelClock& clock) {
        attention_forward(p.shape, p.operands(), {out, log_sum_exp}, workspace);
        clock.lap();
    };
}

// Leaves dQ, and dK and dV of the own subsequence, where they are sent from.
BoundOp bind_attention_of_heads_backward(const RankContext& c, const Op& op) {
    const Operands o(c.schedule, c.arenas, op);
    const AttentionParts p = attention_parts(c, op, o);
    const std::int64_t tokens = c.tokens(op), width = c.query_width();
    const ConstMatrixView dout = o.matrix(o.gathered(), tokens, width);
    const ConstMatrixView out = o.matrix(o.tensor(Tensor::kAttentionOutput), tokens, width);
    const std::span<const float> log_sum_exp = o.tensor(Tensor::kLogSumExp);
    const std::span<float> workspace = o.workspace(attention_backward_workspace(p.shape).value / 4);
    const Operands::Accumulator dkv = o.accumulator(BufferKind::kDkv);
    const MatrixView dseen = o.matrix(dkv.values, p.seen.rows, 2 * p.kv_width);
    const std::span<float> sent = o.of_kind(BufferKind::kComm, AccessMode::kWrite);
    const MatrixView all = o.matrix(sent, tokens, width + 2 * p.kv_width);  // for its size: q's rows, then k's and v's
    const MatrixView dq{all.data, tokens, width}, own{all.data + tokens * width, tokens, 2 * p.kv_width};
    return [=](KernelClock& clock) {
        if (dkv.begins) std::fill(dkv.values.begin(), dkv.values.end(), 0.0F);
        attention_backward(p.shape, p.operands(), {out, log_sum_exp}, dout,
                           {dq, dseen.column_range(0, p.kv_width), dseen.column_range(p.kv_width, p.kv_width)},
                           workspace);
        clock.lap();
        // dK and dV were added where they belong; the own ones are complete: all later subsequences have been here
        std::copy_n(p.own_rows(dseen).data, own.rows * own.columns, own.data);
        clock.lap();
    };
}

}  // namespace sluice
