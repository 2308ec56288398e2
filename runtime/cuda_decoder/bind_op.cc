#include "runtime/cuda_decoder/bind_op.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"

namespace sluice::cuda {

LayerOp layer_op(const CudaRank& c, const Op& op) {
    OperandsOf<Bf16> operands(c.schedule, c.arenas, op);
    const std::int64_t layer = op.tag.layer - c.role().first_layer;
    if (layer < 0 || layer >= static_cast<std::int64_t>(c.layout.layers.size()))
        operands.refuse("the rank does not have this layer");
    Bf16* base = nullptr;  // ops that make the gradients of weights do not read these
    if (operands.has(BufferKind::kWeights, AccessMode::kRead))
        base = operands.of_kind(BufferKind::kWeights).data() + c.layout.layers[static_cast<std::size_t>(layer)].offset;
    return {c, op, operands, {c.schedule, c.arenas, op}, LayerParametersOf<Bf16>(c, base)};
}

LayerGradients layer_gradients(const LayerOp& l) {
    const Accumulator accumulator = l.floats.accumulator(BufferKind::kGrads);
    if (static_cast<std::int64_t>(accumulator.values.size()) != l.rank.layout.layers.front().elements)
        l.operands.refuse("the gradients are not those of one layer");
    return {accumulator, LayerParametersOf<float>(l.rank, accumulator.values.data())};
}

void begin(Stream stream, const Accumulator& accumulator) {
    if (accumulator.begins)
        check(cudaMemsetAsync(accumulator.values.data(), 0, accumulator.values.size_bytes(), stream),
              "clear gradients");
}

ConstBf16Matrix normed_input(const LayerOp& l, Tensor saved) {
    std::span<Bf16> x = l.operands.gathered();
    if (x.empty()) x = l.operands.tensor(saved);
    return l.operands.matrix(x, l.rank.matmul_rows(l.op), l.rank.model().hidden);
}

ConstBf16Matrix output_gradient(const LayerOp& l) {
    std::span<Bf16> dy = l.operands.gathered();
    if (dy.empty()) dy = l.operands.arriving();
    return l.operands.matrix(dy, l.rank.matmul_rows(l.op), l.rank.model().hidden);
}

WorkspaceParts::WorkspaceParts(const OpBytes& op) : op_(op), space_(op.of_kind(BufferKind::kWorkspace)) {}

std::byte* WorkspaceParts::bytes(Bytes count) {
    const std::size_t begin = used_;
    used_ = (begin + static_cast<std::size_t>(count.value) + 255) / 256 * 256;
    if (begin + static_cast<std::size_t>(count.value) > space_.size())
        refuse_workspace(op_, space_.size(), begin + static_cast<std::size_t>(count.value));
    return space_.data() + begin;
}

Bf16Matrix WorkspaceParts::bf16(std::int64_t rows, std::int64_t columns) {
    return {reinterpret_cast<Bf16*>(bytes(Bytes{rows * columns * 2})), rows, columns};
}

namespace {

BoundCudaOp bind_compute(const CudaRank& c, const Op& op) {
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
            OpBytes(c.schedule, c.arenas, op).refuse("a compute op has to say what it computes");
    }
}

}  // namespace

BoundCudaOp bind_op(const CudaRank& c, const Op& op) {
    if (std::holds_alternative<Compute>(op.work)) return bind_compute(c, op);
    if (std::holds_alternative<Copy>(op.work)) return {};
    if (c.transport == nullptr) OpBytes(c.schedule, c.arenas, op).refuse("there is nobody to talk to");
    return bind_message(c, *c.transport, op);
}

}  // namespace sluice::cuda
