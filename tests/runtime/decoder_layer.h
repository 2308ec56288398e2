// One decoder layer put together from the kernels, cut where models/layer_kernels.h cuts it, on `ranks` ranks of a
// Megatron sequence-parallel group in one thread: collectives are loops. It shows that the kernels serve these cuts
// with what models/activation_inventory.h saves, and nothing more.
#pragma once

#include <span>
#include <vector>

#include "runtime/cpu/bias.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/gelu.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/layer_norm.h"
#include "runtime/cpu/residual_add.h"
#include "runtime/cpu/rms_norm.h"
#include "runtime/cpu/rotary_table.h"
#include "runtime/cpu/swiglu.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {

struct LayerSizes {
    bool llama = true;  // RMSNorm, RoPE, SwiGLU, no bias; else LayerNorm, GELU, biases
    std::int64_t hidden = 8, heads = 4, kv_heads = 2, head_dim = 4, ffn = 12;
    std::int64_t first_width() const { return llama ? 2 * ffn : ffn; }
    LayerSizes shard(std::int64_t ranks) const {
        return {llama, hidden, heads / ranks, kv_heads / ranks, head_dim, ffn / ranks};
    }
    std::int64_t q() const { return heads * head_dim; }
    std::int64_t kv() const { return kv_heads * head_dim; }
};

inline constexpr float kNormEpsilon = 1e-5F;

// The weights of a rank, or of the whole layer; also their gradients. Matrices are (out, in). Rows of qkv are queries,
// keys, values; rows of first are gate, up. Column-parallel: qkv, first; row-parallel: projection, second.
struct LayerWeights {
    PaddedTensor qkv, projection, first, second;
    std::vector<float> norm1, norm2, norm1_bias, norm2_bias;                // whole on every rank
    std::vector<float> qkv_bias, first_bias, projection_bias, second_bias;  // the last two whole on every rank

    LayerWeights(const LayerSizes& s, float size, float norm)
        : qkv(PaddedTensor::random(s.q() + 2 * s.kv(), s.hidden, 11, size)),
          projection(PaddedTensor::random(s.hidden, s.q(), 12, size)),
          first(PaddedTensor::random(s.first_width(), s.hidden, 13, size)),
          second(PaddedTensor::random(s.hidden, s.ffn, 14, size)),
          norm1(random_floats(static_cast<std::size_t>(s.hidden), 15, size / 4, norm)),
          norm2(random_floats(static_cast<std::size_t>(s.hidden), 16, size / 4, norm)),
          norm1_bias(random_floats(static_cast<std::size_t>(s.hidden), 17, size)),
          norm2_bias(random_floats(static_cast<std::size_t>(s.hidden), 18, size)),
          qkv_bias(random_floats(static_cast<std::size_t>(qkv.rows()), 19, size)),
          first_bias(random_floats(static_cast<std::size_t>(first.rows()), 20, size)),
          projection_bias(random_floats(static_cast<std::size_t>(s.hidden), 21, size)),
          second_bias(random_floats(static_cast<std::size_t>(s.hidden), 22, size)) {}
};

// What one subsequence leaves on one rank: the inventory, line by line. `rows` = length / ranks.
struct SavedActivations {
    PaddedTensor input, norm1, query, attention, middle, norm2, first, activation;
    std::vector<float> mean1, reciprocal1, mean2, reciprocal2, log_sum_exp;
    SavedActivations(const LayerSizes& s, std::int64_t length, std::int64_t rows)
        : input(rows, s.hidden),
          norm1(rows, s.hidden),
          query(length, s.q()),
          attention(length, s.q()),
          middle(rows, s.hidden),
          norm2(rows, s.hidden),
          first(length, s.first_width()),
          activation(length, s.ffn),
          mean1(poisoned(static_cast<std::size_t>(rows))),
          reciprocal1(mean1),
          mean2(mean1),
          reciprocal2(mean1),
          log_sum_exp(poisoned(static_cast<std::size_t>(length * s.heads))) {}
};

class DecoderLayer {
public:
    DecoderLayer(const LayerSizes& whole, std::int64_t ranks, std::vector<std::int64_t> lengths);

    PaddedTensor forward(const PaddedTensor& x);    // (sequence, hidden), all subsequences in order
    PaddedTensor backward(const PaddedTensor& dy);  // from the last subsequence to the first; returns dx
    const LayerWeights& weights() const { return whole_weights_; }
    LayerWeights gathered_gradients() const;  // of all ranks, as the whole layer's

private:
    using Shards = std::vector<PaddedTensor>;  // one per rank
    struct Piece {
        std::int64_t begin, length;
        std::vector<SavedActivations> saved;
    };
    std::int64_t rows(const Piece& p) const { return p.length / ranks_; }
    PaddedTensor gather(const Shards& shards) const;
    Shards reduce_scatter(const Shards& partial) const;
    void norm_forward(bool second, std::int64_t rank, SavedActivations& saved);
    PaddedTensor attention_forward_of(std::int64_t rank, Piece& p, const PaddedTensor& x);
    PaddedTensor mlp_forward_of(std::int64_t rank, Piece& p, const PaddedTensor& x);
    PaddedTensor mlp_backward_of(std::int64_t rank, Piece& p, const PaddedTensor& x, const PaddedTensor& dy);
    PaddedTensor attention_backward_of(std::int64_t rank, Piece& p, const PaddedTensor& x, const PaddedTensor& dy);
    void norm_backward(bool second, std::int64_t rank, const SavedActivations& saved, const PaddedTensor& dx,
                       PaddedTensor& residual);
    AttentionShape attention_shape(const Piece& p) const;
    std::vector<float> rotary(const Piece& p) const;

    LayerSizes sizes_, shard_;
    std::int64_t ranks_;
    LayerWeights whole_weights_;
    std::vector<LayerWeights> weights_, gradients_;
    std::vector<Piece> pieces_;
    Shards kv_, dkv_;  // (sequence, [K or V][kv_head][head_dim]) of each rank
};

}  // namespace sluice
