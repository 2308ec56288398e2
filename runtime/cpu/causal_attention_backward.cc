#include "base/error.h"
#include "runtime/cpu/attention_tiles.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/lane_sum.h"

namespace sluice {
namespace {

struct BackwardWorkspace {
    float* weights;       // (query tile, key tile): scores, then p, then ds
    float* dweights;      // (query tile, key tile): dp = dout v^T
    float* dout_dot_out;  // per query
};

struct HeadBackward {
    ConstMatrixView query, key, value, out, dout;
    const float* log_sum_exp;  // (length)
    MatrixView dquery, dkey, dvalue;
};

BackwardWorkspace lay_out(const AttentionShape& shape, std::span<float> workspace) {
    const std::int64_t tile = query_tile_rows(shape) * key_tile_columns(shape);
    return {workspace.data(), workspace.data() + tile, workspace.data() + 2 * tile};
}

// Scores become p = exp(score - log_sum_exp), 0 where masked.
void weights_from_scores(const AttentionShape& shape, const AttentionTile& tile, const float* log_sum_exp,
                         MatrixView weights) {
    for (std::int64_t r = 0; r < tile.queries; ++r) {
        float* s = weights.row(r);
        const std::int64_t visible = tile.visible(shape, r);
        const float total = log_sum_exp[tile.query + r];
        for (std::int64_t c = 0; c < visible; ++c) s[c] = exponential(s[c] - total);
        std::fill(s + visible, s + tile.keys, 0.0F);
    }
}

// p becomes ds = p (dp - dout . out); the masked part stays 0.
void score_gradients(const AttentionShape& shape, const AttentionTile& tile, const BackwardWorkspace& w) {
    for (std::int64_t r = 0; r < tile.queries; ++r) {
        float* p = w.weights + r * tile.keys;
        const float* dp = w.dweights + r * tile.keys;
        const std::int64_t visible = tile.visible(shape, r);
        const float dot = w.dout_dot_out[r];
        for (std::int64_t c = 0; c < visible; ++c) p[c] *= dp[c] - dot;
    }
}

void backward_tile(const AttentionShape& shape, const AttentionTile& tile, const HeadBackward& head,
                   const BackwardWorkspace& w) {
    using enum Transpose;
    const float scale = attention_scale(shape);
    const MatrixView weights(w.weights, tile.queries, tile.keys), dweights(w.dweights, tile.queries, tile.keys);
    const ConstMatrixView query = head.query.row_range(tile.query, tile.queries);
    const ConstMatrixView dout = head.dout.row_range(tile.query, tile.queries);
    const ConstMatrixView key = head.key.row_range(tile.key, tile.keys);
    gemm(kNo, query, kYes, key, weights, Store::kOverwrite, scale);
    weights_from_scores(shape, tile, head.log_sum_exp, weights);
    gemm(kYes, weights, kNo, dout, head.dvalue.row_range(tile.key, tile.keys), Store::kAdd);
    gemm(kNo, dout, kYes, head.value.row_range(tile.key, tile.keys), dweights);
    score_gradients(shape, tile, w);
    gemm(kNo, weights, kNo, key, head.dquery.row_range(tile.query, tile.queries),
         tile.key == 0 ? Store::kOverwrite : Store::kAdd, scale);
    gemm(kYes, weights, kNo, query, head.dkey.row_range(tile.key, tile.keys), Store::kAdd, scale);
}

void backward_queries(const AttentionShape& shape, std::int64_t query, std::int64_t queries, const HeadBackward& head,
                      const BackwardWorkspace& w) {
    for (std::int64_t r = 0; r < queries; ++r) {
        const float *out = head.out.row(query + r), *dout = head.dout.row(query + r);
        w.dout_dot_out[r] = lane_sum<float>(shape.head_dim, [=](std::int64_t c) { return out[c] * dout[c]; });
    }
    for_each_key_tile(shape, query, queries, [&](const AttentionTile& tile) { backward_tile(shape, tile, head, w); });
}

void check_gradient_shapes(const AttentionShape& shape, const AttentionOperands& in,
                           const AttentionResult<const float>& result, ConstMatrixView dout,
                           const AttentionGradients& gradients) {
    SLUICE_CHECK(same_shape(in.query, result.out) && same_shape(in.query, dout) &&
                     same_shape(in.query, gradients.query) &&
                     std::ssize(result.log_sum_exp) == shape.heads * shape.length.value,
                 "attention's results and gradients have the shape of the queries");
    SLUICE_CHECK(same_shape(in.key, gradients.key) && same_shape(in.key, gradients.value),
                 "dK and dV have the shape of the keys");
}

}  // namespace

Bytes attention_backward_workspace(const AttentionShape& shape) {
    const std::int64_t rows = query_tile_rows(shape);
    return Bytes{(2 * rows * key_tile_columns(shape) + rows) * static_cast<std::int64_t>(sizeof(float))};
}

void attention_backward(const AttentionShape& shape, const AttentionOperands& in,
                        const AttentionResult<const float>& result, ConstMatrixView dout,
                        const AttentionGradients& gradients, std::span<float> workspace) {
    check_attention_shapes(shape, in);
    check_gradient_shapes(shape, in, result, dout, gradients);
    SLUICE_CHECK(Bytes{static_cast<std::int64_t>(workspace.size_bytes())} >= attention_backward_workspace(shape),
                 "attention's workspace has the stated size");
    const BackwardWorkspace w = lay_out(shape, workspace);
    const std::int64_t d = shape.head_dim;
    for (std::int64_t h = 0; h < shape.heads; ++h) {
        const std::int64_t kv = h / (shape.heads / shape.kv_heads);
        const HeadBackward head{head_of(in.query, h, d),
                                head_of(in.key, kv, d),
                                head_of(in.value, kv, d),
                                head_of(result.out, h, d),
                                head_of(dout, h, d),
                                result.log_sum_exp.data() + h * shape.length.value,
                                head_of(gradients.query, h, d),
                                head_of(gradients.key, kv, d),
                                head_of(gradients.value, kv, d)};
        for_each_query_tile(
            shape, [&](std::int64_t query, std::int64_t queries) { backward_queries(shape, query, queries, head, w); });
    }
}

}  // namespace sluice
