// Ulysses: the projections of the rank's tokens, before and behind attention. What is sent and what arrives lies in
// blocks by member (head_blocks.h): of q one, and of k and v one with a member's keys beside its values.
#include <algorithm>

#include "runtime/cpu/bias.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/rotary_table.h"
#include "runtime/decoder/bind_op.h"
#include "runtime/decoder/head_blocks.h"

namespace sluice {
namespace {

using enum Transpose;

// Weights, or their gradients, of one member's heads.
struct MemberWeights {
    MatrixView query, key, value;
    std::span<float> query_bias, key_bias, value_bias;  // empty without biases
};

MemberWeights weights_of(const RankContext& c, const LayerParameters& w, std::int64_t member) {
    const std::int64_t q = c.query_width(), kv = c.kv_width(), keys = c.kv_outputs();
    MemberWeights m{w.query().row_range(member * q, q),
                    w.key_value().row_range(member * kv, kv),
                    w.key_value().row_range(keys + member * kv, kv),
                    {},
                    {},
                    {}};
    if (w.query_bias().empty()) return m;
    const auto part = [](std::span<float> all, std::int64_t first, std::int64_t count) {
        return all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    m.query_bias = part(w.query_bias(), member * q, q);
    m.key_bias = part(w.key_value_bias(), member * kv, kv);
    m.value_bias = part(w.key_value_bias(), keys + member * kv, kv);
    return m;
}

// Columns of the projection that read one member's heads.
MatrixView projection_of(const RankContext& c, const LayerParameters& w, std::int64_t member) {
    return w.projection().column_range(member * c.query_width(), c.query_width());
}

// q, k and v of the rank's tokens, or their gradients.
struct Qkv {
    HeadBlocks query, kv;  // no kv where it is the query alone
    RotaryShape rotary;
    std::span<const float> table;  // of the tokens' positions; empty without RoPE
    std::int64_t kv_width = 0;

    MatrixView key(std::int64_t member) const { return kv.of(member).column_range(0, kv_width); }
    MatrixView value(std::int64_t member) const { return kv.of(member).column_range(kv_width, kv_width); }
    void rotate_all(RotationSense sense) const {
        for (std::int64_t m = 0; m < query.members; ++m) {
            rotate(rotary, table, sense, query.of(m));
            if (kv.data != nullptr) rotate(rotary, table, sense, key(m));
        }
    }
};

HeadBlocks query_blocks(const RankContext& c, const Op& op, const Operands& o, std::span<float> space) {
    const HeadBlocks blocks{space.data(), c.shape.shards, c.rows(op), c.query_width()};
    if (static_cast<std::int64_t>(space.size()) < blocks.size()) o.refuse("the exchanged queries have another size");
    return blocks;
}

Qkv qkv_at(const RankContext& c, const Op& op, const Operands& o, std::span<float> space) {
    Qkv p;
    const std::int64_t d = c.model().head_dim;
    p.query = query_blocks(c, op, o, space);
    p.kv_width = c.kv_width();
    const HeadBlocks kv{space.data() + p.query.size(), c.shape.shards, c.rows(op), 2 * c.kv_width()};
    if (static_cast<std::int64_t>(space.size()) == p.query.size() + kv.size())
        p.kv = kv;
    else if (static_cast<std::int64_t>(space.size()) != p.query.size() || op.tag.function != Function::kQuery)
        o.refuse("the exchanged queries, keys and values have another size");
    p.rotary = {d, d, c.model().rope_theta};
    if (!c.rotary.empty())
        p.table = c.rotary.subspan(static_cast<std::size_t>(c.first_position(op).value * d),
                                   static_cast<std::size_t>(c.rows(op) * d));
    return p;
}

// y = x w^T + bias
void linear(ConstMatrixView x, ConstMatrixView w, std::span<const float> bias, MatrixView y) {
    gemm(kNo, x, kYes, w, y);
    if (!bias.empty()) add_bias(bias, y);
}

// dw += dy^T x, and the bias' gradient
void add_weight_gradient(ConstMatrixView dy, ConstMatrixView x, MatrixView dw, std::span<float> dbias) {
    gemm(kYes, dy, kNo, x, dw, Store::kAdd);
    if (!dbias.empty()) bias_backward(dy, dbias);
}

ConstMatrixView own_norm(const LayerOp& l) {
    return l.operands.matrix(l.operands.tensor(Tensor::kNorm1Output), l.context.rows(l.op), l.context.model().hidden);
}

}  // namespace

BoundOp bind_qkv_forward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Qkv p = qkv_at(c, op, l.operands, l.operands.of_kind(BufferKind::kComm, AccessMode::kWrite));
    const ConstMatrixView x = own_norm(l);
    std::vector<MemberWeights> weights;
    for (std::int64_t m = 0; m < p.query.members; ++m) weights.push_back(weights_of(c, l.weights, m));
    return [=](KernelClock& clock) {
        for (std::int64_t m = 0; m < p.query.members; ++m) {
            const MemberWeights& w = weights[static_cast<std::size_t>(m)];
            linear(x, w.query, w.query_bias, p.query.of(m));
            if (p.kv.data == nullptr) continue;
            linear(x, w.key, w.key_bias, p.key(m));
            linear(x, w.value, w.value_bias, p.value(m));
        }
        clock.lap();
        if (p.table.empty()) return;
        p.rotate_all(RotationSense::kForward);
        clock.lap();
    };
}

BoundOp bind_qkv_backward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Qkv p = qkv_at(c, op, l.operands, l.operands.gathered());
    const ConstMatrixView x = own_norm(l);
    const LayerGradients g = layer_gradients(l);
    const MatrixView dx = l.operands.matrix(l.operands.target(), c.rows(op), c.model().hidden);
    std::vector<MemberWeights> weights, gradients;
    for (std::int64_t m = 0; m < p.query.members; ++m) {
        weights.push_back(weights_of(c, l.weights, m));
        gradients.push_back(weights_of(c, g.of, m));
    }
    return [=](KernelClock& clock) {
        g.begin();
        if (!p.table.empty()) {
            p.rotate_all(RotationSense::kBackward);
            clock.lap();
        }
        for (std::int64_t m = 0; m < p.query.members; ++m) {
            const MemberWeights& w = weights[static_cast<std::size_t>(m)];
            gemm(kNo, p.query.of(m), kNo, w.query, dx, m == 0 ? Store::kOverwrite : Store::kAdd);
            gemm(kNo, p.key(m), kNo, w.key, dx, Store::kAdd);
            gemm(kNo, p.value(m), kNo, w.value, dx, Store::kAdd);
        }
        clock.lap();
        for (std::int64_t m = 0; m < p.query.members; ++m) {
            const MemberWeights& dw = gradients[static_cast<std::size_t>(m)];
            add_weight_gradient(p.query.of(m), x, dw.query, dw.query_bias);
            add_weight_gradient(p.key(m), x, dw.key, dw.key_bias);
            add_weight_gradient(p.value(m), x, dw.value, dw.value_bias);
        }
        clock.lap();
    };
}

BoundOp bind_projection_forward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const HeadBlocks out = query_blocks(c, op, l.operands, l.operands.gathered());
    const MatrixView y = l.operands.matrix(l.operands.target(), c.rows(op), c.model().hidden);
    const LayerParameters w = l.weights;
    return [=, &c](KernelClock& clock) {
        for (std::int64_t m = 0; m < out.members; ++m)
            gemm(kNo, out.of(m), kYes, projection_of(c, w, m), y, m == 0 ? Store::kOverwrite : Store::kAdd);
        if (!w.projection_bias().empty()) add_bias(w.projection_bias(), y);
        clock.lap();
    };
}

BoundOp bind_projection_backward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const HeadBlocks dout = query_blocks(c, op, l.operands, l.operands.of_kind(BufferKind::kComm, AccessMode::kWrite));
    const ConstMatrixView dy = l.operands.matrix(l.operands.stream(0), c.rows(op), c.model().hidden);
    const LayerParameters w = l.weights;
    return [=, &c](KernelClock& clock) {
        for (std::int64_t m = 0; m < dout.members; ++m) gemm(kNo, dy, kNo, projection_of(c, w, m), dout.of(m));
        clock.lap();
    };
}

BoundOp bind_projection_weight(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const HeadBlocks out = query_blocks(c, op, l.operands, l.operands.gathered());
    const ConstMatrixView dy = l.operands.matrix(l.operands.stream(0), c.rows(op), c.model().hidden);
    const LayerGradients g = layer_gradients(l);
    return [=, &c](KernelClock& clock) {
        g.begin();
        for (std::int64_t m = 0; m < out.members; ++m)
            gemm(kYes, dy, kNo, out.of(m), projection_of(c, g.of, m), Store::kAdd);
        if (!g.of.projection_bias().empty()) bias_backward(dy, g.of.projection_bias());
        clock.lap();
    };
}

}  // namespace sluice
