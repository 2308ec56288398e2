#include <cmath>
#include <limits>

#include "base/error.h"
#include "runtime/cpu/attention_tiles.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/lane_sum.h"

namespace sluice {
namespace {

struct ForwardWorkspace {
    float* scores;   // (query tile, key tile)
    float* maximum;  // per query: the largest score so far
    float* sum;      // per query: of exp(score - maximum) so far
};

struct HeadForward {
    ConstMatrixView query, key, value;
    MatrixView out;
    float* log_sum_exp;  // (length)
};

ForwardWorkspace lay_out(const AttentionShape& shape, std::span<float> workspace) {
    const std::int64_t rows = query_tile_rows(shape), scores = rows * key_tile_columns(shape);
    return {workspace.data(), workspace.data() + scores, workspace.data() + scores + rows};
}

void scale_row(float* row, std::int64_t columns, float factor) {
    for (std::int64_t c = 0; c < columns; ++c) row[c] *= factor;
}

// Scores become exp(score - maximum), 0 where masked; what earlier tiles gave is rescaled when the maximum rises.
void fold_scores(const AttentionShape& shape, const AttentionTile& tile, MatrixView scores, const ForwardWorkspace& w,
                 MatrixView out) {
    for (std::int64_t r = 0; r < tile.queries; ++r) {
        float* s = scores.row(r);
        const std::int64_t visible = tile.visible(shape, r);
        const float before = w.maximum[r];
        const float now = std::max(before, lane_maximum(visible, [s](std::int64_t c) { return s[c]; }));
        for (std::int64_t c = 0; c < visible; ++c) s[c] = exponential(s[c] - now);
        std::fill(s + visible, s + tile.keys, 0.0F);
        const float kept = exponential(before - now);  // 0 for the first tile
        w.sum[r] = w.sum[r] * kept + lane_sum<float>(visible, [s](std::int64_t c) { return s[c]; });
        w.maximum[r] = now;
        if (tile.key > 0 && kept != 1.0F) scale_row(out.row(r), out.columns, kept);
    }
}

void forward_tile(const AttentionShape& shape, const AttentionTile& tile, const HeadForward& head,
                  const ForwardWorkspace& w) {
    const MatrixView scores(w.scores, tile.queries, tile.keys);
    const MatrixView out = head.out.row_range(tile.query, tile.queries);
    gemm(Transpose::kNo, head.query.row_range(tile.query, tile.queries), Transpose::kYes,
         head.key.row_range(tile.key, tile.keys), scores, Store::kOverwrite, attention_scale(shape));
    fold_scores(shape, tile, scores, w, out);
    gemm(Transpose::kNo, scores, Transpose::kNo, head.value.row_range(tile.key, tile.keys), out,
         tile.key == 0 ? Store::kOverwrite : Store::kAdd);
}

void forward_queries(const AttentionShape& shape, std::int64_t query, std::int64_t queries, const HeadForward& head,
                     const ForwardWorkspace& w) {
    std::fill_n(w.maximum, queries, -std::numeric_limits<float>::infinity());
    std::fill_n(w.sum, queries, 0.0F);
    for_each_key_tile(shape, query, queries, [&](const AttentionTile& tile) { forward_tile(shape, tile, head, w); });
    for (std::int64_t r = 0; r < queries; ++r) {
        scale_row(head.out.row(query + r), shape.head_dim, 1.0F / w.sum[r]);
        head.log_sum_exp[query + r] = w.maximum[r] + std::log(w.sum[r]);
    }
}

}  // namespace

Bytes attention_forward_workspace(const AttentionShape& shape) {
    const std::int64_t rows = query_tile_rows(shape);
    return Bytes{(rows * key_tile_columns(shape) + 2 * rows) * static_cast<std::int64_t>(sizeof(float))};
}

void attention_forward(const AttentionShape& shape, const AttentionOperands& in, const AttentionResult<float>& result,
                       std::span<float> workspace) {
    check_attention_shapes(shape, in);
    SLUICE_CHECK(same_shape(in.query, result.out) && std::ssize(result.log_sum_exp) == shape.heads * shape.length.value,
                 "the results of attention have the shape of the queries");
    SLUICE_CHECK(Bytes{static_cast<std::int64_t>(workspace.size_bytes())} >= attention_forward_workspace(shape),
                 "attention's workspace has the stated size");
    const ForwardWorkspace w = lay_out(shape, workspace);
    for (std::int64_t h = 0; h < shape.heads; ++h) {
        const std::int64_t kv = h / (shape.heads / shape.kv_heads);
        const HeadForward head{head_of(in.query, h, shape.head_dim), head_of(in.key, kv, shape.head_dim),
                               head_of(in.value, kv, shape.head_dim), head_of(result.out, h, shape.head_dim),
                               result.log_sum_exp.data() + h * shape.length.value};
        for_each_query_tile(
            shape, [&](std::int64_t query, std::int64_t queries) { forward_queries(shape, query, queries, head, w); });
    }
}

}  // namespace sluice
