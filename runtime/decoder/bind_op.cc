#include "runtime/decoder/bind_op.h"

#include <algorithm>

namespace sluice {
namespace {

BoundOp bind_compute(const RankContext& c, const Op& op) {
    const bool backward = op.tag.phase == Phase::kBackward, again = op.tag.phase == Phase::kRecompute;
    switch (op.tag.function) {
        case Function::kEmbedding:
            return backward ? bind_embedding_backward(c, op) : bind_embedding_forward(c, op);
        case Function::kNorm1:
        case Function::kNorm2: {
            const bool second = op.tag.function == Function::kNorm2;
            return again      ? bind_norm_again(c, op, second)
                   : backward ? bind_norm_backward(c, op, second)
                              : bind_norm_forward(c, op, second);
        }
        case Function::kAttention:
            if (c.exchanges_heads())
                return backward ? bind_attention_of_heads_backward(c, op) : bind_attention_of_heads_forward(c, op);
            return again      ? bind_attention_again(c, op)
                   : backward ? bind_attention_backward(c, op)
                              : bind_attention_forward(c, op);
        case Function::kMlp:
            return again ? bind_mlp_again(c, op) : backward ? bind_mlp_backward(c, op) : bind_mlp_forward(c, op);
        case Function::kActivation:
            return bind_activation_again(c, op);
        case Function::kResidual:
            return bind_residual(c, op);
        case Function::kFinalNorm:
            return bind_final_norm(c, op);
        case Function::kLoss:
            return bind_loss(c, op);
        case Function::kFinalNormGradient:
            return bind_final_norm_gradient(c, op);
        case Function::kNorms:
            return bind_norms_again(c, op);
        case Function::kQuery:
            return c.exchanges_heads() ? bind_qkv_forward(c, op) : bind_query_again(c, op);
        case Function::kQkv:
            return backward ? bind_qkv_backward(c, op) : bind_qkv_forward(c, op);
        case Function::kProjection:
            return backward ? bind_projection_backward(c, op) : bind_projection_forward(c, op);
        case Function::kProjectionWeight:
            return bind_projection_weight(c, op);
        case Function::kAttentionWeight:
            return bind_attention_weight(c, op);
        case Function::kMlpWeight:
            return bind_mlp_weight(c, op);
        case Function::kGradientNorm:
            return bind_gradient_norm(c, op);
        case Function::kAdamw:
            return bind_adamw(c, op);
        default:
            Operands(c.schedule, c.arenas, op).refuse("a compute op has to say what it computes");
    }
}

}  // namespace

LayerOp layer_op(const RankContext& c, const Op& op) {
    Operands operands(c.schedule, c.arenas, op);
    const std::int64_t layer = op.tag.layer - c.role().first_layer;
    if (layer < 0 || layer >= static_cast<std::int64_t>(c.layout.layers.size()))
        operands.refuse("the rank does not have this layer");
    float* base = nullptr;  // ops that make the gradients of weights do not read these
    if (operands.has(BufferKind::kWeights, AccessMode::kRead))
        base = operands.of_kind(BufferKind::kWeights).data() + c.layout.layers[static_cast<std::size_t>(layer)].offset;
    return {c, op, operands, LayerParameters(c, base)};
}

LayerGradients layer_gradients(const LayerOp& l) {
    const Operands::Accumulator accumulator = l.operands.accumulator(BufferKind::kGrads);
    if (static_cast<std::int64_t>(accumulator.values.size()) != l.context.layout.layers.front().elements)
        l.operands.refuse("the gradients are not those of one layer");
    return {accumulator, LayerParameters(l.context, accumulator.values.data())};
}

void begin(const Operands::Accumulator& accumulator) {
    if (accumulator.begins) std::fill(accumulator.values.begin(), accumulator.values.end(), 0.0F);
}

void LayerGradients::begin() const { sluice::begin(accumulator); }

ConstMatrixView normed_input(const LayerOp& l, Tensor saved) {
    std::span<float> x = l.operands.gathered();
    if (x.empty()) x = l.operands.tensor(saved);
    return l.operands.matrix(x, l.context.matmul_rows(l.op), l.context.model().hidden);
}

ConstMatrixView output_gradient(const LayerOp& l) {
    std::span<float> dy = l.operands.gathered();
    if (dy.empty()) dy = l.operands.arriving();
    return l.operands.matrix(dy, l.context.matmul_rows(l.op), l.context.model().hidden);
}

BoundOp bind_op(const RankContext& c, const Op& op) {
    if (std::holds_alternative<Compute>(op.work)) return bind_compute(c, op);
    if (std::holds_alternative<Copy>(op.work)) return {};
    if (c.stand_ins != nullptr) return bind_message_alone(c, op);
    if (std::holds_alternative<Collective>(op.work)) return bind_collective(c, op);
    return bind_transfer(c, op);
}

}  // namespace sluice
