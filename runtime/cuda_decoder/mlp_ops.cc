#include "runtime/cuda/activation.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda_decoder/bind_op.h"

namespace sluice::cuda {
namespace {

using enum Transpose;

// The inner part of the MLP, on this rank's columns.
struct Inner {
    bool gated = false;
    GeluForm form = GeluForm::kTanh;
    std::int64_t ffn = 0;
    Bf16Matrix first, activation;  // (tokens, first width), (tokens, ffn)
    // The op makes the activation's output: forward, and backward of a layer that does not keep it.
    bool activates = false;

    void activate(Stream stream) const {
        if (gated)
            swiglu_forward(stream, first.column_range(0, ffn), first.column_range(ffn, ffn), activation);
        else
            gelu_forward(stream, form, first, activation);
    }
    void backward(Stream stream, Bf16Matrix dactivation, Bf16Matrix dfirst) const {
        const Bf16Matrix again = activates ? activation : Bf16Matrix{};
        if (gated)
            swiglu_backward(stream, dactivation, first.column_range(0, ffn), first.column_range(ffn, ffn),
                            dfirst.column_range(0, ffn), dfirst.column_range(ffn, ffn), again);
        else
            gelu_backward(stream, form, dactivation, first, dfirst, again);
    }
};

Inner inner(const CudaRank& c, const Op& op, const OperandsOf<Bf16>& o) {
    Inner i;
    i.gated = c.gated(), i.ffn = c.ffn();
    i.form = c.model().positions == Positions::kRope ? GeluForm::kErf : GeluForm::kTanh;  // NeoX's, GPT-2's
    i.first = o.matrix(o.tensor(Tensor::kFirstMlpOutput), c.matmul_rows(op), c.first_width());
    i.activates = o.has(Tensor::kActivationOutput, AccessMode::kWrite);
    if (i.activates || op.tag.phase == Phase::kBackward)
        i.activation = o.matrix(o.tensor(Tensor::kActivationOutput), c.matmul_rows(op), c.ffn());
    return i;
}

// The first product and what follows it.
struct FirstHalf {
    Product<Bf16> product;
    std::span<Bf16> bias;
    Inner inner;

    FirstHalf(const LayerOp& l, const Inner& i)
        : product(l.rank, kNo, normed_input(l, Tensor::kNorm2Output), kYes, l.weights.first(), i.first),
          bias(l.weights.first_bias()),
          inner(i) {}
    void operator()(StreamClock& clock) const {
        product(clock.stream());
        if (!bias.empty()) add_bias(clock.stream(), bias.data(), inner.first);
        clock.lap();
        if (!inner.activates) return;
        inner.activate(clock.stream());
        clock.lap();
    }
};

}  // namespace

BoundCudaOp bind_mlp_forward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Inner i = inner(c, op, l.operands);
    const FirstHalf first_half(l, i);
    const Bf16Matrix target = l.operands.matrix(l.operands.target(), c.matmul_rows(op), c.model().hidden);
    const Product second(c, kNo, i.activation, kYes, l.weights.second(), target);
    const std::span<Bf16> bias = l.weights.second_bias();
    const Bf16Matrix own = target.row_range(c.first_row(op), c.rows(op));
    return [=](StreamClock& clock) {
        first_half(clock);
        second(clock.stream());
        if (!bias.empty()) add_bias(clock.stream(), bias.data(), own);
        clock.lap();
    };
}

BoundCudaOp bind_mlp_again(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    return FirstHalf(l, inner(c, op, l.operands));
}

BoundCudaOp bind_activation_again(const CudaRank& c, const Op& op) {
    const Inner i = inner(c, op, OperandsOf<Bf16>(c.schedule, c.arenas, op));
    return [=](StreamClock& clock) {
        i.activate(clock.stream());
        clock.lap();
    };
}

// Leaves the gradient of the first matrix's output in the workspace, behind that of the activation's. What makes the
// activation's output again does so before the gradient of the second matrix, which reads it.
BoundCudaOp bind_mlp_backward(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const Inner i = inner(c, op, l.operands);
    const LayerGradients g = layer_gradients(l);
    const std::int64_t tokens = c.matmul_rows(op);
    const ConstBf16Matrix dy = output_gradient(l);
    WorkspaceParts space(l.operands.bytes());
    const Bf16Matrix dactivation = space.bf16(tokens, c.ffn()), dfirst = space.bf16(tokens, c.first_width());
    const Bf16Matrix target = l.operands.matrix(l.operands.target(), tokens, c.model().hidden);
    const Product data(c, kNo, dy, kNo, l.weights.second(), dactivation);
    const Product second(c, kYes, dy, kNo, i.activation, g.of.second(), Store::kAdd);
    const Product input(c, kNo, dfirst, kNo, l.weights.first(), target);
    const std::span<float> dbias = g.of.second_bias();
    const ConstBf16Matrix own = dy.row_range(c.first_row(op), c.rows(op));
    const Scratch scratch = c.scratch;
    const auto weight = [=](Stream stream) {
        second(stream);
        if (!dbias.empty()) bias_backward(stream, own, dbias.data(), scratch);
    };
    const auto inner_backward = [=](Stream stream) { i.backward(stream, dactivation, dfirst); };
    return [=](StreamClock& clock) {
        const Stream stream = clock.stream();
        g.begin(stream);
        data(stream);
        clock.lap();
        i.activates ? inner_backward(stream) : weight(stream);
        clock.lap();
        i.activates ? weight(stream) : inner_backward(stream);
        clock.lap();
        input(stream);
        clock.lap();
    };
}

BoundCudaOp bind_mlp_weight(const CudaRank& c, const Op& op) {
    const LayerOp l = layer_op(c, op);
    const LayerGradients g = layer_gradients(l);
    WorkspaceParts space(l.operands.bytes());
    space.bf16(c.matmul_rows(op), c.ffn());
    const Bf16Matrix dfirst = space.bf16(c.matmul_rows(op), c.first_width());
    const Product weight(c, kYes, dfirst, kNo, normed_input(l, Tensor::kNorm2Output), g.of.first(), Store::kAdd);
    const std::span<float> dbias = g.of.first_bias();
    const Scratch scratch = c.scratch;
    return [=](StreamClock& clock) {
        g.begin(clock.stream());
        weight(clock.stream());
        if (!dbias.empty()) bias_backward(clock.stream(), dfirst, dbias.data(), scratch);
        clock.lap();
    };
}

}  // namespace sluice::cuda
