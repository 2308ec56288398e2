// Causal attention of one subsequence against its prefix, on the heads of one rank, blockwise: scores exist for one
// tile of queries and keys at a time (Dao 2023, "FlashAttention-2", algorithms 1 and 2), so workspaces do not grow with
// the sequence.
//
// Queries [begin, begin + length) see keys [0, own position]; p = softmax(q k / sqrt(head_dim)), out = p v. Query head
// h reads key/value head h / (heads / kv_heads), as in Llama's grouped-query attention.
//
// Rows are tokens, a row is [head][head_dim]; rows may lie apart (stride), so queries can be columns of a fused QKV
// output, and K and V one buffer of [token][K or V][kv_head][head_dim].
//
// Deterministic: tiles, heads and the sums in them are walked in one fixed order. The tiles of keys start at key 0 and
// those of queries at `begin`, so cutting a sequence into other subsequences changes results by rounding only.
#pragma once

#include <span>

#include "base/units.h"
#include "runtime/matrix_view.h"

namespace sluice {

struct AttentionShape {
    Tokens begin{}, length{};
    std::int64_t heads = 0, kv_heads = 0;  // of this rank; kv_heads divides heads
    std::int64_t head_dim = 0;
};

struct AttentionOperands {
    ConstMatrixView query;       // (length, heads * head_dim)
    ConstMatrixView key, value;  // (begin + length, kv_heads * head_dim)
};

// Saved for backward beside q, k, v.
template <class Element>
struct AttentionResult {
    BasicMatrixView<Element> out;    // (length, heads * head_dim)
    std::span<Element> log_sum_exp;  // [head][token]: ln sum over keys of exp(q k / sqrt(head_dim))
};

// Exact bytes of `workspace` below: scores, and a maximum and a sum per query of a tile.
Bytes attention_forward_workspace(const AttentionShape&);

// Overwrites both results. They overlap nothing, nor does workspace, whose contents do not matter before or after.
void attention_forward(const AttentionShape&, const AttentionOperands&, const AttentionResult<float>&,
                       std::span<float> workspace);

struct AttentionGradients {
    MatrixView query;       // (length, heads * head_dim): overwritten
    MatrixView key, value;  // (begin + length, kv_heads * head_dim), fp32 accumulators: added to. Those of a
                            // subsequence are complete when all later subsequences and itself have been through here
};

// Exact bytes of `workspace` below: p and dp of a tile, and dout . out per query of a tile.
Bytes attention_backward_workspace(const AttentionShape&);

// With p made again from the log-sum-exp:  dv += p^T dout,   ds = p (dout v^T - dout . out),
// dq = ds k / sqrt(head_dim),   dk += ds^T q / sqrt(head_dim).
// dout (length, heads * head_dim). dq may overlap nothing: q and dout are read after parts of it are written.
void attention_backward(const AttentionShape&, const AttentionOperands&, const AttentionResult<const float>&,
                        ConstMatrixView dout, const AttentionGradients&, std::span<float> workspace);

}  // namespace sluice
