// From an op's function to the kernels it runs on a GPU: docs/functions.md has the table; runtime/decoder/bind_op.h is
// the same for the CPU, and the reference.
#pragma once

#include "runtime/cuda/norm.h"
#include "runtime/cuda_decoder/cuda_rank.h"
#include "runtime/decoder/operands.h"
#include "runtime/decoder/parameter_views.h"

namespace sluice::cuda {

// Finds the operands of an op and chooses the algorithms of its products and attention. The rank must outlive the
// result. Copies are the backend's own; for them it is empty. Throws InputError for what this runtime cannot run.
BoundCudaOp bind_op(const CudaRank& rank, const Op& op);

// ---- Its parts, by what the ops are about

struct LayerOp {
    const CudaRank& rank;
    const Op& op;
    OperandsOf<Bf16> operands;
    OperandsOf<float> floats;  // the same operands, where they are fp32
    LayerParametersOf<Bf16> weights;
};
LayerOp layer_op(const CudaRank&, const Op&);

// What an op adds to, and clears first where it is the first to touch it.
using Accumulator = OperandsOf<float>::Accumulator;
void begin(Stream, const Accumulator&);

struct LayerGradients {
    Accumulator accumulator;
    LayerParametersOf<float> of;
    void begin(Stream stream) const { cuda::begin(stream, accumulator); }
};
LayerGradients layer_gradients(const LayerOp&);

ConstBf16Matrix normed_input(const LayerOp&, Tensor saved);
ConstBf16Matrix output_gradient(const LayerOp&);

// The part of a workspace that follows what is taken already; parts begin at multiples of 256 bytes.
class WorkspaceParts {
public:
    explicit WorkspaceParts(const OpBytes& op);
    Bf16Matrix bf16(std::int64_t rows, std::int64_t columns);
    std::byte* bytes(Bytes count);

private:
    const OpBytes& op_;
    std::span<std::byte> space_;
    std::size_t used_ = 0;
};

BoundCudaOp bind_norm_forward(const CudaRank&, const Op&, bool second);
BoundCudaOp bind_norm_again(const CudaRank&, const Op&, bool second);
BoundCudaOp bind_norms_again(const CudaRank&, const Op&);
BoundCudaOp bind_norm_backward(const CudaRank&, const Op&, bool second);
BoundCudaOp bind_residual(const CudaRank&, const Op&);

BoundCudaOp bind_attention_forward(const CudaRank&, const Op&);
BoundCudaOp bind_attention_again(const CudaRank&, const Op&);
BoundCudaOp bind_query_again(const CudaRank&, const Op&);
BoundCudaOp bind_attention_backward(const CudaRank&, const Op&);
BoundCudaOp bind_attention_weight(const CudaRank&, const Op&);

// Ulysses: attention alone, and its projections of the rank's tokens.
BoundCudaOp bind_attention_of_heads_forward(const CudaRank&, const Op&);
BoundCudaOp bind_attention_of_heads_backward(const CudaRank&, const Op&);
BoundCudaOp bind_qkv_forward(const CudaRank&, const Op&);  // or the query alone, again
BoundCudaOp bind_qkv_backward(const CudaRank&, const Op&);
BoundCudaOp bind_projection_forward(const CudaRank&, const Op&);
BoundCudaOp bind_projection_backward(const CudaRank&, const Op&);
BoundCudaOp bind_projection_weight(const CudaRank&, const Op&);

BoundCudaOp bind_mlp_forward(const CudaRank&, const Op&);
BoundCudaOp bind_mlp_again(const CudaRank&, const Op&);
BoundCudaOp bind_activation_again(const CudaRank&, const Op&);
BoundCudaOp bind_mlp_backward(const CudaRank&, const Op&);
BoundCudaOp bind_mlp_weight(const CudaRank&, const Op&);

BoundCudaOp bind_embedding_forward(const CudaRank&, const Op&);
BoundCudaOp bind_embedding_backward(const CudaRank&, const Op&);
BoundCudaOp bind_final_norm(const CudaRank&, const Op&);
BoundCudaOp bind_loss(const CudaRank&, const Op&);
BoundCudaOp bind_final_norm_gradient(const CudaRank&, const Op&);

BoundCudaOp bind_gradient_norm(const CudaRank&, const Op&);
BoundCudaOp bind_adamw(const CudaRank&, const Op&);

// A collective, a send or a receive. The transport must outlive the result.
BoundCudaOp bind_message(const RankSizes&, Transport&, const Op&);

// Floats that a norm of the model leaves per row: RMSNorm r; LayerNorm m, then r.
std::int64_t statistics_per_row(const Architecture&);

}  // namespace sluice::cuda
