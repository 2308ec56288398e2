// The kernels that one rank runs for one subsequence: what a transformer is, in work.
//
// Megatron sequence parallelism of degree t: weights are split over t ranks (column-parallel QKV and first MLP GEMM,
// row-parallel output and second MLP GEMM), everything outside the GEMMs and attention works on 1/t of the tokens.
// Chains are cut where a collective stands:
//
//   forward   norm1 |all-gather| attention |reduce-scatter| norm2 |all-gather| mlp |reduce-scatter| residual
//   backward  |all-gather dY, X| mlp_data, then mlp_weight beside |reduce-scatter dX| norm2
//             |all-gather dY, X| attention_data, then attention_weight beside |reduce-scatter dX| norm1
//
// Two all-gathers and two reduce-scatters forward, four and two backward: the gathered inputs are not saved (SPPO
// section 6, Korthikanti et al. 2022, "Reducing activation recomputation", section 4.2.2).
//
// Ulysses of degree t (Jacobs et al. 2023): every rank has all weights and works on 1/t of the tokens, but in attention
// on all tokens and 1/t of the heads. All-to-alls go from one to the other and back:
//
//   forward   norm1, qkv |q, k, v| attention |output| projection, norm2, mlp, residual
//   backward  mlp_data, norm2, projection |gradient of the output| mlp_weight, projection_weight beside
//             attention_data |gradients of q, k, v| qkv, norm1;   |output| again, for projection_weight
#pragma once

#include <vector>

#include "base/units.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

// Tokens [begin, begin + length) of the sequence. Their queries see keys [0, begin + length).
struct Subsequence {
    Tokens begin{}, length{};
    Tokens end() const { return begin + length; }
};

using KernelChain = std::vector<Kernel>;

struct LayerForward {
    KernelChain norm1;      // (length / t, hidden)
    KernelChain qkv;        // Ulysses, else part of attention: QKV, RoPE of the rank's tokens
    KernelChain attention;  // QKV, RoPE, attention against the prefix, output projection: (length, hidden) partial sums
    KernelChain projection;  // Ulysses, else part of attention: output projection of the rank's tokens
    KernelChain norm2;       // residual add, norm
    KernelChain mlp;         // first GEMM, activation, second GEMM: partial sums
    KernelChain residual;    // residual add
};

struct LayerBackward {
    // Second GEMM's data and weight gradients, activation, first GEMM's data gradient. `lean`: the activation stands
    // before the weight gradient, for which it makes its output again in the same pass.
    KernelChain mlp_data;
    KernelChain mlp_weight;  // first GEMM's weight gradient
    KernelChain norm2;
    KernelChain projection, projection_weight;  // Ulysses, else part of attention_data
    KernelChain attention_data;                 // output projection, attention, dK/dV accumulation, QKV data gradient
    KernelChain attention_weight;               // QKV weight gradient
    KernelChain qkv;                            // Ulysses, else parts of the two: RoPE, QKV data and weight gradients
    KernelChain norm1;
};

// What the recompute fate runs before the backward of a layer, from the block input, the middle residual and
// attention's results: norms |all-gather X| mlp, and later |all-gather X| query. The gathers are those of backward
// itself. Ulysses: norms, query |all-to-all| mlp.
// Whole layers, from the block input and K and V, which are there: norm1 |all-gather X| attention |reduce-scatter|
// norm2 |all-gather X| mlp. Ulysses: norm1, query |q| attention |output| projection, norm2, mlp. These are forward's
// kernels, so that what they make has forward's bits.
struct LayerRecompute {
    KernelChain norms;  // both norms' outputs and statistics: (length / t, hidden) each
    KernelChain mlp;    // first GEMM and activation; `lean`: the GEMM, since backward makes the activation again
    KernelChain query;  // query projection, RoPE
    // Whole layers, else empty. Behind the query: attention against the prefix, and, but for Ulysses, output
    // projection.
    KernelChain attention;
    KernelChain projection;  // Ulysses, else part of attention
    KernelChain residual;    // the add before norm2
};

// The loss: final norm |all-gather| logits, cross-entropy and their gradients, a chunk of tokens at a time, four
// kernels each |reduce-scatter| final norm backward. Run with the forward pass, so that logits live for one chunk only.
struct HeadKernels {
    KernelChain norm;
    KernelChain loss;
    KernelChain norm_backward;
};

// All for batch 1 of one sequence and one layer.
LayerForward layer_forward(const Scenario&, Subsequence);
LayerBackward layer_backward(const Scenario&, Subsequence);
LayerRecompute layer_recompute(const Scenario&, Subsequence);
HeadKernels head_kernels(const Scenario&, Subsequence);
KernelChain embedding_forward(const Scenario&, Subsequence);  // partial sums of the vocabulary shard
KernelChain embedding_backward(const Scenario&, Subsequence);

// Per rank, `parameters` of them on it.
KernelChain gradient_norm(const Scenario&, std::int64_t parameters);
KernelChain adamw(const Scenario&, std::int64_t parameters);

// The whole tensor of one all-gather or reduce-scatter of a subsequence: (length, hidden) in the activations' type.
Bytes gathered_bytes(const Scenario&, Subsequence);
// What one rank sends in an all-to-all of queries or attention outputs, (length / t, heads head_dim), and of keys and
// values together. A rank has as many bytes of its heads, (length, heads / t head_dim).
Bytes query_exchange_bytes(const Scenario&, Subsequence);
Bytes kv_exchange_bytes(const Scenario&, Subsequence);
// What one rank sends to the next stage: its shard, (length / t, hidden).
Bytes boundary_bytes(const Scenario&, Subsequence);

// Tokens of one logits chunk.
inline constexpr Tokens kLogitsChunk{8192};

}  // namespace sluice
