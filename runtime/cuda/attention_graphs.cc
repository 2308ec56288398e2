#include "runtime/cuda/attention_graphs.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace sluice::cuda {
namespace {

using namespace attention;

// The order of operations matters throughout: engines are found by the pattern of the graph.

float scale_of(const AttentionCall& c) { return 1 / std::sqrt(static_cast<float>(c.head_dim)); }

TensorLayout rows_of_heads(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim, std::int64_t stride) {
    return {{1, heads, tokens, head_dim}, {tokens * stride, head_dim, stride, 1}};
}
TensorLayout rows_of_heads(std::int64_t tokens, std::int64_t heads, std::int64_t head_dim) {
    return rows_of_heads(tokens, heads, head_dim, heads * head_dim);
}
TensorLayout per_query(const AttentionCall& c) { return packed({1, c.heads, c.queries, 1}); }

TensorId query(OperationGraph& g, const AttentionCall& c) {
    return g.memory(kQuery, "query", TensorType::kBf16, rows_of_heads(c.queries, c.heads, c.head_dim, c.query_stride));
}
TensorLayout keys(const AttentionCall& c) { return rows_of_heads(c.keys, c.kv_heads, c.head_dim, c.key_stride); }

// Keys after a query's own position count for nothing.
TensorId causal_only(OperationGraph& g, const AttentionCall& c, TensorId scores) {
    if (!c.causal) return scores;
    TensorId row = g.row_index(scores);
    const TensorId column = g.column_index(scores);
    if (c.keys != c.queries) {  // the diagonal ends in the lower right corner
        row = g.add_integer(row, g.constant(static_cast<std::int32_t>(c.keys)));
        row = g.subtract_integer(row, g.constant(static_cast<std::int32_t>(c.queries)));
    }
    const TensorId seen = g.at_least(row, column);
    return g.select(seen, scores, g.constant(-std::numeric_limits<float>::infinity()));
}

}  // namespace

std::string text(const AttentionCall& c) {
    return fmt::format("{} queries, {} keys{}, {}/{} heads of {}, strides {}, {}, {}, {}{}", c.queries, c.keys,
                       c.causal ? " causal" : "", c.heads, c.kv_heads, c.head_dim, c.query_stride, c.key_stride,
                       c.query_gradient_stride, c.log_sum_exp_stride, c.deterministic ? ", deterministic" : "");
}

OperationGraph forward_graph(const AttentionCall& c) {
    OperationGraph g("attention forward, " + text(c));
    const TensorId q = query(g, c);
    const TensorId k_transposed = g.memory(kKey, "key", TensorType::kBf16, transposed(keys(c)));
    const TensorId v = g.memory(kValue, "value", TensorType::kBf16, keys(c));
    const TensorId out = g.memory(kOut, "out", TensorType::kBf16, rows_of_heads(c.queries, c.heads, c.head_dim));
    const TensorId log_sum_exp =
        g.memory(kLogSumExp, "log-sum-exp", TensorType::kFp32,
                 {{1, c.heads, c.queries, 1}, {c.heads * c.log_sum_exp_stride, c.log_sum_exp_stride, 1, 1}});

    // p = softmax(q k^T / sqrt(d)), out = p v
    TensorId scores = g.product(q, k_transposed);
    scores = g.multiply(scores, g.constant(scale_of(c)));
    scores = causal_only(g, c, scores);
    const TensorId maximum = g.row_maximum(scores);
    const TensorId e = g.exp(g.subtract(scores, maximum));
    const TensorId sum = g.row_sum(e);
    g.add(maximum, g.log(sum), log_sum_exp);
    const TensorId p = g.divide(e, sum, TensorType::kBf16);
    g.product(p, v, out);
    return g;
}

namespace {

// result = a b, head by head, or, where several heads of the query share one of the result, the sum over them.
void product_into_groups(OperationGraph& g, const AttentionCall& c, TensorId a, TensorId b, TensorId result) {
    if (c.heads == c.kv_heads) {
        g.product(a, b, result);
    } else {
        g.group_sum(g.product(a, b, TensorType::kBf16), result);
    }
}

}  // namespace

OperationGraph backward_graph(const AttentionCall& c) {
    OperationGraph g("attention backward, " + text(c));
    const TensorLayout query_like = rows_of_heads(c.queries, c.heads, c.head_dim);
    const TensorLayout key_like = rows_of_heads(c.keys, c.kv_heads, c.head_dim);
    const TensorId q = query(g, c);
    const TensorId k_transposed = g.memory(kKey, "key", TensorType::kBf16, transposed(keys(c)));
    const TensorId v_transposed = g.memory(kValue, "value", TensorType::kBf16, transposed(keys(c)));
    const TensorId out = g.memory(kOut, "out", TensorType::kBf16, query_like);
    const TensorId dout = g.memory(kOutGradient, "dout", TensorType::kBf16, query_like);
    const TensorId log_sum_exp = g.memory(kLogSumExp, "log-sum-exp", TensorType::kFp32, per_query(c));
    const TensorId dk = g.memory(kKeyGradient, "dkey", TensorType::kBf16, key_like);
    const TensorId dv = g.memory(kValueGradient, "dvalue", TensorType::kBf16, key_like);
    const TensorId dq = g.memory(kQueryGradient, "dquery", TensorType::kBf16,
                                 rows_of_heads(c.queries, c.heads, c.head_dim, c.query_gradient_stride));
    const TensorId out_dot = g.memory(kOutDot, "dout . out", TensorType::kFp32, per_query(c));
    const TensorId scale = g.constant(scale_of(c));

    // dout . out; the factor of one stands where engines look for that of dropout
    g.multiply(g.row_sum(g.multiply(dout, out)), g.constant(1.0F), out_dot);

    // p = exp(q k^T / sqrt(d) - lse), dv = p^T dout
    TensorId scores = g.product(q, k_transposed);
    scores = g.multiply(scores, scale);
    scores = g.subtract(scores, log_sum_exp);
    scores = causal_only(g, c, scores);
    const TensorId p = g.exp(scores);
    product_into_groups(g, c, g.transpose(p), dout, dv);

    // ds = p (dout v^T - dout . out) / sqrt(d), dk = ds^T q
    TensorId ds = g.product(dout, v_transposed);
    ds = g.subtract(ds, out_dot);
    ds = g.multiply(ds, p);
    ds = g.multiply(ds, scale);
    product_into_groups(g, c, g.transpose(ds), q, dk);

    // dq = ds k, its sum over tiles of keys in fp32
    const TensorId k = g.transpose(k_transposed);
    if (c.deterministic) {
        g.product(ds, k, dq);
    } else {
        g.copy(g.product(ds, k,
                         g.memory(kQueryAccumulator, "dquery in fp32", TensorType::kFp32,
                                  packed({1, c.heads, c.queries, c.head_dim}))),
               dq);
    }
    return g;
}

}  // namespace sluice::cuda
