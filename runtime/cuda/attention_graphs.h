// The operation graphs of one call of attention, as cuDNN's engines know them. For attention.cc alone.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "runtime/cuda/cudnn_graph.h"

namespace sluice::cuda {

// Every tensor is [1, heads, tokens, head_dim] over rows of [token][head][head_dim].
struct AttentionCall {
    std::int64_t queries = 0, keys = 0;
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    std::int64_t query_stride = 0, key_stride = 0;  // elements from token to token; key and value alike
    std::int64_t query_gradient_stride = 0;         // backward only
    std::int64_t log_sum_exp_stride = 0;            // from head to head; backward: queries
    bool causal = false;         // the last query sees every key, the one before all but the last, ...
    bool deterministic = false;  // backward only
    friend auto operator<=>(const AttentionCall&, const AttentionCall&) = default;
};
std::string text(const AttentionCall&);

// Tensors in memory.
namespace attention {
inline constexpr TensorId kQuery{1}, kKey{2}, kValue{3}, kOut{4};
inline constexpr TensorId kLogSumExp{5};                       // fp32, [head][token]
inline constexpr TensorId kOutGradient{6};                     // rows without gaps, as those of out
inline constexpr TensorId kQueryGradient{7};                   // bf16
inline constexpr TensorId kKeyGradient{8}, kValueGradient{9};  // bf16, rows without gaps, overwritten
inline constexpr TensorId kOutDot{10};                         // fp32, [head][token]: dout . out
inline constexpr TensorId kQueryAccumulator{11};  // fp32, heads * queries * head_dim, in an order of the library's own;
                                                  // not if deterministic
}  // namespace attention

OperationGraph forward_graph(const AttentionCall&);
OperationGraph backward_graph(const AttentionCall&);

}  // namespace sluice::cuda
