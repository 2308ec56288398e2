// From an op's function to the kernels it runs: docs/functions.md has the table.
#pragma once

#include "runtime/decoder/operands.h"
#include "runtime/decoder/parameter_views.h"
#include "runtime/decoder/rank_context.h"

namespace sluice {

// Finds the operands of an op and what runs on them. The context must outlive the result. Copies are the backend's own;
// for them it is empty. Throws InputError for what this runtime cannot run.
BoundOp bind_op(const RankContext& context, const Op& op);

// ---- Its parts, by what the ops are about

struct LayerOp {
    const RankContext& context;
    const Op& op;
    Operands operands;
    LayerParameters weights;
};
LayerOp layer_op(const RankContext& context, const Op& op);

// The gradients of the layer: zeroes them first where the op is the first to touch them.
struct LayerGradients {
    Operands::Accumulator accumulator;
    LayerParameters of;
    void begin() const;
};
LayerGradients layer_gradients(const LayerOp& layer);
// The rows that a matmul reads: a norm's output, gathered, or the saved one where nothing is gathered.
ConstMatrixView normed_input(const LayerOp& layer, Tensor saved);
// The gradient of what the attention or MLP block put out, of all tokens.
ConstMatrixView output_gradient(const LayerOp& layer);
// First part of the gradients that a write begins.
void begin(const Operands::Accumulator&);

BoundOp bind_norm_forward(const RankContext&, const Op&, bool second);
BoundOp bind_norm_again(const RankContext&, const Op&, bool second);
BoundOp bind_norms_again(const RankContext&, const Op&);
BoundOp bind_norm_backward(const RankContext&, const Op&, bool second);
BoundOp bind_residual(const RankContext&, const Op&);

BoundOp bind_attention_forward(const RankContext&, const Op&);
BoundOp bind_attention_again(const RankContext&, const Op&);
BoundOp bind_query_again(const RankContext&, const Op&);
BoundOp bind_attention_backward(const RankContext&, const Op&);
BoundOp bind_attention_weight(const RankContext&, const Op&);

// Ulysses: attention alone, and its projections of the rank's tokens.
BoundOp bind_attention_of_heads_forward(const RankContext&, const Op&);
BoundOp bind_attention_of_heads_backward(const RankContext&, const Op&);
BoundOp bind_qkv_forward(const RankContext&, const Op&);  // or the query alone, again
BoundOp bind_qkv_backward(const RankContext&, const Op&);
BoundOp bind_projection_forward(const RankContext&, const Op&);
BoundOp bind_projection_backward(const RankContext&, const Op&);
BoundOp bind_projection_weight(const RankContext&, const Op&);

BoundOp bind_mlp_forward(const RankContext&, const Op&);
BoundOp bind_mlp_again(const RankContext&, const Op&);
BoundOp bind_activation_again(const RankContext&, const Op&);
BoundOp bind_mlp_backward(const RankContext&, const Op&);
BoundOp bind_mlp_weight(const RankContext&, const Op&);

BoundOp bind_embedding_forward(const RankContext&, const Op&);
BoundOp bind_embedding_backward(const RankContext&, const Op&);
BoundOp bind_final_norm(const RankContext&, const Op&);
BoundOp bind_loss(const RankContext&, const Op&);
BoundOp bind_final_norm_gradient(const RankContext&, const Op&);

BoundOp bind_gradient_norm(const RankContext&, const Op&);
BoundOp bind_adamw(const RankContext&, const Op&);

BoundOp bind_collective(const RankContext&, const Op&);
BoundOp bind_transfer(const RankContext&, const Op&);
BoundOp bind_message_alone(const RankContext&, const Op&);  // any of these, where partners have stand-ins

// The norm of the model on rows of the hidden size, with its weights and what it leaves per row: RMSNorm r, LayerNorm
// m, then r.
struct NormWeights {
    std::span<float> weight, bias;
};
std::int64_t statistics_per_row(const Architecture&);
void norm_forward(const Architecture&, ConstMatrixView x, const NormWeights&, MatrixView y,
                  std::span<float> statistics);
struct NormBackward {
    ConstMatrixView dy, x;
    std::span<const float> weight, statistics;
    ConstMatrixView passed;
};
void norm_backward(const Architecture&, const NormBackward& in, MatrixView dx, const NormWeights& gradients);

}  // namespace sluice
