#include "runtime/cpu/bias.h"
#include "runtime/cpu/gelu.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/swiglu.h"
#include "runtime/decoder/bind_op.h"

namespace sluice {
namespace {

using enum Transpose;

// The inner part of the MLP, on this rank's columns.
struct Inner {
    bool gated = false;
    GeluForm form = GeluForm::kTanh;
    std::int64_t ffn = 0;
    MatrixView first, activation;  // (tokens, first width), (tokens, ffn)
    // The op makes the activation's output: forward, and backward of a layer that does not keep it.
    bool activates = false;

    void activate() const {
        if (gated)
            swiglu_forward(first.column_range(0, ffn), first.column_range(ffn, ffn), activation);
        else
            gelu_forward(form, first, activation);
    }
    void backward(ConstMatrixView dactivation, MatrixView dfirst) const {
        if (gated)
            swiglu_backward({dactivation, first.column_range(0, ffn), first.column_range(ffn, ffn)},
                            dfirst.column_range(0, ffn), dfirst.column_range(ffn, ffn));
        else
            gelu_backward(form, dactivation, first, dfirst);
    }
};

Inner inner(const RankContext& c, const Op& op, const Operands& o) {
    Inner i;
    i.gated = c.gated(), i.ffn = c.ffn();
    i.form = c.model().positions == Positions::kRope ? GeluForm::kErf : GeluForm::kTanh;  // NeoX's, GPT-2's
    i.first = o.matrix(o.tensor(Tensor::kFirstMlpOutput), c.matmul_rows(op), c.first_width());
    i.activates = o.has(Tensor::kActivationOutput, AccessMode::kWrite);
    if (i.activates || op.tag.phase == Phase::kBackward)
        i.activation = o.matrix(o.tensor(Tensor::kActivationOutput), c.matmul_rows(op), c.ffn());
    return i;
}

void make_first(const LayerParameters& w, ConstMatrixView x, const Inner& i) {
    gemm(kNo, x, kYes, w.first(), i.first);
    if (!w.first_bias().empty()) add_bias(w.first_bias(), i.first);
}

}  // namespace

BoundOp bind_mlp_forward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Inner i = inner(c, op, l.operands);
    const LayerParameters w = l.weights;
    const ConstMatrixView x = normed_input(l, Tensor::kNorm2Output);
    const std::int64_t rows = c.rows(op), first = c.first_row(op);
    const MatrixView target = l.operands.matrix(l.operands.target(), c.matmul_rows(op), c.model().hidden);
    return [=](KernelClock& clock) {
        make_first(w, x, i);
        clock.lap();
        i.activate();
        clock.lap();
        gemm(kNo, i.activation, kYes, w.second(), target);
        if (!w.second_bias().empty()) add_bias(w.second_bias(), target.row_range(first, rows));
        clock.lap();
    };
}

BoundOp bind_mlp_again(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Inner i = inner(c, op, l.operands);
    const LayerParameters w = l.weights;
    const ConstMatrixView x = normed_input(l, Tensor::kNorm2Output);
    return [=](KernelClock& clock) {
        make_first(w, x, i);
        clock.lap();
        if (!i.activates) return;
        i.activate();
        clock.lap();
    };
}

BoundOp bind_activation_again(const RankContext& c, const Op& op) {
    const Inner i = inner(c, op, Operands(c.schedule, c.arenas, op));
    return [=](KernelClock& clock) {
        i.activate();
        clock.lap();
    };
}

// Leaves the gradient of the first matrix's output in the workspace, behind that of the activation's. What makes the
// activation's output again does so before the gradient of the second matrix, which reads it.
BoundOp bind_mlp_backward(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Operands& o = l.operands;
    const Inner i = inner(c, op, o);
    const LayerParameters w = l.weights;
    const LayerGradients g = layer_gradients(l);
    const std::int64_t tokens = c.matmul_rows(op), rows = c.rows(op), first = c.first_row(op),
                       hidden = c.model().hidden;
    const ConstMatrixView dy = output_gradient(l);
    const std::span<float> space = o.workspace(tokens * (c.ffn() + c.first_width()));
    const MatrixView dactivation{space.data(), tokens, c.ffn()};
    const MatrixView dfirst{space.data() + tokens * c.ffn(), tokens, c.first_width()};
    const MatrixView target = o.matrix(o.target(), tokens, hidden);
    const auto weight = [=] {
        gemm(kYes, dy, kNo, i.activation, g.of.second(), Store::kAdd);
        if (!g.of.second_bias().empty()) bias_backward(dy.row_range(first, rows), g.of.second_bias());
    };
    const auto inner_backward = [=] {
        if (i.activates) i.activate();
        i.backward(dactivation, dfirst);
    };
    return [=](KernelClock& clock) {
        g.begin();
        gemm(kNo, dy, kNo, w.second(), dactivation);
        clock.lap();
        i.activates ? inner_backward() : weight();
        clock.lap();
        i.activates ? weight() : inner_backward();
        clock.lap();
        gemm(kNo, dfirst, kNo, w.first(), target);
        clock.lap();
    };
}

BoundOp bind_mlp_weight(const RankContext& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const LayerGradients g = layer_gradients(l);
    const ConstMatrixView x = normed_input(l, Tensor::kNorm2Output);
    const std::int64_t tokens = c.matmul_rows(op);
    const ConstMatrixView dfirst{l.operands.workspace(tokens * (c.ffn() + c.first_width())).data() + tokens * c.ffn(),
                                 tokens, c.first_width()};
    return [=](KernelClock& clock) {
        g.begin();
        gemm(kYes, dfirst, kNo, x, g.of.first(), Store::kAdd);
        if (!g.of.first_bias().empty()) bias_backward(dfirst, g.of.first_bias());
        clock.lap();
    };
}

}  // namespace sluice
