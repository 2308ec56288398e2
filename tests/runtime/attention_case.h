// One whole sequence of attention in tensors with gaps, run in any cut into subsequences; and the reference in double,
// which forms the whole score matrix and knows neither tiles nor subsequences.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/cpu/causal_attention.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {

struct AttentionSizes {
    std::int64_t tokens, heads, kv_heads, head_dim;
    std::string text() const {
        return std::to_string(tokens) + " tokens, " + std::to_string(heads) + "/" + std::to_string(kv_heads) + " x " +
               std::to_string(head_dim);
    }
};

// softmax(q k / sqrt(d)) v of queries [begin, tokens), all in double; [token][head][d].
inline std::vector<double> reference_attention(const AttentionSizes& s, std::int64_t begin,
                                               const std::vector<double>& q, const std::vector<double>& k,
                                               const std::vector<double>& v) {
    const std::int64_t queries = s.tokens - begin;
    std::vector<double> out(static_cast<std::size_t>(queries * s.heads * s.head_dim), 0.0);
    std::vector<double> p(static_cast<std::size_t>(s.tokens));
    for (std::int64_t t = 0; t < queries; ++t)
        for (std::int64_t h = 0; h < s.heads; ++h) {
            const double* query = &q[static_cast<std::size_t>((t * s.heads + h) * s.head_dim)];
            const auto kv_row = [&](const std::vector<double>& from, std::int64_t key) {
                return &from[static_cast<std::size_t>((key * s.kv_heads + h * s.kv_heads / s.heads) * s.head_dim)];
            };
            double largest = -INFINITY, sum = 0;
            for (std::int64_t key = 0; key <= begin + t; ++key) {
                double score = 0;
                for (std::int64_t c = 0; c < s.head_dim; ++c) score += query[c] * kv_row(k, key)[c];
                score /= std::sqrt(static_cast<double>(s.head_dim));
                p[static_cast<std::size_t>(key)] = score;
                largest = std::max(largest, score);
            }
            for (std::int64_t key = 0; key <= begin + t; ++key)
                sum += p[static_cast<std::size_t>(key)] = std::exp(p[static_cast<std::size_t>(key)] - largest);
            for (std::int64_t key = 0; key <= begin + t; ++key)
                for (std::int64_t c = 0; c < s.head_dim; ++c)
                    out[static_cast<std::size_t>((t * s.heads + h) * s.head_dim + c)] +=
                        p[static_cast<std::size_t>(key)] / sum * kv_row(v, key)[c];
        }
    return out;
}

struct AttentionCase {
    AttentionSizes sizes;
    PaddedTensor q, k, v, dout, out, dq, dk, dv;
    std::vector<float> log_sum_exp;  // [head][token of the piece], pieces one after another
    float workspace_fill = kPoison;

    explicit AttentionCase(const AttentionSizes& s, float score_size = 2)
        : sizes(s),
          q(PaddedTensor::random(s.tokens, s.heads * s.head_dim, 1, score_size)),
          k(PaddedTensor::random(s.tokens, s.kv_heads * s.head_dim, 2)),
          v(PaddedTensor::random(s.tokens, s.kv_heads * s.head_dim, 3)),
          dout(PaddedTensor::random(s.tokens, s.heads * s.head_dim, 4)),
          out(s.tokens, s.heads * s.head_dim),
          dq(s.tokens, s.heads * s.head_dim),
          dk(PaddedTensor::filled(s.tokens, s.kv_heads * s.head_dim, 0)),
          dv(dk),
          log_sum_exp(poisoned(static_cast<std::size_t>(s.tokens * s.heads))) {}

    AttentionShape shape(std::int64_t begin, std::int64_t length) const {
        return {Tokens{begin}, Tokens{length}, sizes.heads, sizes.kv_heads, sizes.head_dim};
    }
    AttentionOperands operands(std::int64_t begin, std::int64_t length) {
        return {q.view().row_range(begin, length), k.view().row_range(0, begin + length),
                v.view().row_range(0, begin + length)};
    }
    std::span<float> statistics(std::int64_t begin, std::int64_t length) {
        return std::span(log_sum_exp)
            .subspan(static_cast<std::size_t>(begin * sizes.heads), static_cast<std::size_t>(length * sizes.heads));
    }
    std::vector<float> workspace(Bytes bytes) const {
        return std::vector<float>(static_cast<std::size_t>(bytes.value) / sizeof(float), workspace_fill);
    }

    void forward(std::int64_t begin, std::int64_t length) {
        std::vector<float> space = workspace(attention_forward_workspace(shape(begin, length)));
        attention_forward(shape(begin, length), operands(begin, length),
                          {out.view().row_range(begin, length), statistics(begin, length)}, space);
    }
    void backward(std::int64_t begin, std::int64_t length) {
        std::vector<float> space = workspace(attention_backward_workspace(shape(begin, length)));
        const AttentionGradients gradients{dq.view().row_range(begin, length), dk.view().row_range(0, begin + length),
                                           dv.view().row_range(0, begin + length)};
        attention_backward(shape(begin, length), operands(begin, length),
                           {out.view().row_range(begin, length), statistics(begin, length)},
                           dout.view().row_range(begin, length), gradients, space);
    }
    // The whole sequence, forward in order and backward from the last piece to the first, as the schedule does.
    void run(const std::vector<std::int64_t>& lengths) {
        std::int64_t begin = 0;
        for (const std::int64_t length : lengths) forward(begin, length), begin += length;
        for (auto length = lengths.rbegin(); length != lengths.rend(); ++length)
            begin -= *length, backward(begin, *length);
    }
};

}  // namespace sluice
