#include "tests/runtime/decoder_layer.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

using enum Transpose;

std::size_t index(std::int64_t rank) { return static_cast<std::size_t>(rank); }

// Copies `count` rows or columns between a whole tensor and a rank's part of it; `to_whole` for gradients.
void move_rows(PaddedTensor& whole, std::int64_t whole_row, PaddedTensor& part, std::int64_t part_row,
               std::int64_t count, bool to_whole) {
    for (std::int64_t r = 0; r < count; ++r) {
        float *w = whole.view().row(whole_row + r), *p = part.view().row(part_row + r);
        to_whole ? std::copy_n(p, whole.columns(), w) : std::copy_n(w, whole.columns(), p);
    }
}
void move_columns(PaddedTensor& whole, std::int64_t column, PaddedTensor& part, bool to_whole) {
    for (std::int64_t r = 0; r < whole.rows(); ++r) {
        float *w = whole.view().row(r) + column, *p = part.view().row(r);
        to_whole ? std::copy_n(p, part.columns(), w) : std::copy_n(w, part.columns(), p);
    }
}
void move_values(std::vector<float>& whole, std::int64_t first, std::vector<float>& part, std::int64_t at,
                 std::int64_t count, bool to_whole) {
    for (std::int64_t i = 0; i < count; ++i)
        to_whole ? void(whole[index(first + i)] = part[index(at + i)])
                 : void(part[index(at + i)] = whole[index(first + i)]);
}

// One rank's part of the sharded weights. `s` is the whole layer.
void move_shard(const LayerSizes& s, std::int64_t ranks, std::int64_t rank, LayerWeights& whole, LayerWeights& part,
                bool to_whole) {
    const LayerSizes p = s.shard(ranks);
    const std::int64_t from[] = {0, s.q(), s.q() + s.kv()}, to[] = {0, p.q(), p.q() + p.kv()};
    const std::int64_t count[] = {p.q(), p.kv(), p.kv()};
    for (std::size_t i = 0; i < 3; ++i) {
        move_rows(whole.qkv, from[i] + rank * count[i], part.qkv, to[i], count[i], to_whole);
        move_values(whole.qkv_bias, from[i] + rank * count[i], part.qkv_bias, to[i], count[i], to_whole);
    }
    for (std::int64_t half = 0; half < (s.llama ? 2 : 1); ++half) {
        move_rows(whole.first, half * s.ffn + rank * p.ffn, part.first, half * p.ffn, p.ffn, to_whole);
        move_values(whole.first_bias, half * s.ffn + rank * p.ffn, part.first_bias, half * p.ffn, p.ffn, to_whole);
    }
    move_columns(whole.projection, rank * p.q(), part.projection, to_whole);
    move_columns(whole.second, rank * p.ffn, part.second, to_whole);
}

LayerWeights shard_of(const LayerSizes& s, std::int64_t ranks, std::int64_t rank, LayerWeights& whole) {
    LayerWeights part(s.shard(ranks), 0, 0);
    move_shard(s, ranks, rank, whole, part, false);
    part.norm1 = whole.norm1, part.norm2 = whole.norm2;
    part.norm1_bias = whole.norm1_bias, part.norm2_bias = whole.norm2_bias;
    part.projection_bias = whole.projection_bias, part.second_bias = whole.second_bias;
    return part;
}

std::vector<float> space(Bytes bytes) { return poisoned(static_cast<std::size_t>(bytes.value) / sizeof(float)); }

}  // namespace

DecoderLayer::DecoderLayer(const LayerSizes& whole, std::int64_t ranks, std::vector<std::int64_t> lengths)
    : sizes_(whole), shard_(whole.shard(ranks)), ranks_(ranks), whole_weights_(whole, 0.5F, 1) {
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
        pieces_.push_back({begin, length, {}});
        for (std::int64_t r = 0; r < ranks; ++r) pieces_.back().saved.emplace_back(shard_, length, length / ranks);
        begin += length;
    }
    for (std::int64_t r = 0; r < ranks; ++r) {
        weights_.push_back(shard_of(whole, ranks, r, whole_weights_));
        gradients_.emplace_back(shard_, 0.0F, 0.0F);
        kv_.emplace_back(begin, 2 * shard_.kv());
        dkv_.push_back(PaddedTensor::filled(begin, 2 * shard_.kv(), 0));
    }
}

PaddedTensor DecoderLayer::gather(const Shards& shards) const {
    const std::int64_t count = shards[0].rows();
    PaddedTensor all(count * ranks_, shards[0].columns());
    for (std::int64_t r = 0; r < ranks_; ++r)
        for (std::int64_t t = 0; t < count; ++t)
            std::copy_n(shards[index(r)].view().row(t), all.columns(), all.view().row(r * count + t));
    return all;
}

DecoderLayer::Shards DecoderLayer::reduce_scatter(const Shards& partial) const {
    const std::int64_t count = partial[0].rows() / ranks_;
    Shards out(index(ranks_), PaddedTensor(count, partial[0].columns()));
    for (std::int64_t r = 0; r < ranks_; ++r) {
        const MatrixView sum = out[index(r)].view();
        for (std::int64_t t = 0; t < count; ++t)
            std::copy_n(partial[0].view().row(r * count + t), sum.columns, sum.row(t));
        for (std::int64_t from = 1; from < ranks_; ++from)
            residual_add(sum, partial[index(from)].view().row_range(r * count, count), sum);
    }
    return out;
}

AttentionShape DecoderLayer::attention_shape(const Piece& p) const {
    return {Tokens{p.begin}, Tokens{p.length}, shard_.heads, shard_.kv_heads, shard_.head_dim};
}

std::vector<float> DecoderLayer::rotary(const Piece& p) const {
    const RotaryShape shape{shard_.head_dim, shard_.head_dim, 10000};
    std::vector<float> table = space(rotary_table_bytes(shape, Tokens{p.length}));
    fill_rotary_table(shape, Tokens{p.begin}, Tokens{p.length}, table);
    return table;
}

// norm1, norm2
void DecoderLayer::norm_forward(bool second, std::int64_t rank, SavedActivations& a) {
    const LayerWeights& w = weights_[index(rank)];
    const ConstMatrixView x = std::as_const(second ? a.middle : a.input).view();
    const MatrixView y = (second ? a.norm2 : a.norm1).view();
    const std::span<const float> weight = second ? w.norm2 : w.norm1;
    const std::span<float> mean = second ? a.mean2 : a.mean1, reciprocal = second ? a.reciprocal2 : a.reciprocal1;
    if (sizes_.llama)
        rms_norm_forward(x, weight, kNormEpsilon, y, reciprocal);
    else
        layer_norm_forward(x, {weight, second ? w.norm2_bias : w.norm1_bias, kNormEpsilon}, y, {mean, reciprocal});
}

// attention: QKV, RoPE, attention against the prefix, output projection; returns partial sums
PaddedTensor DecoderLayer::attention_forward_of(std::int64_t rank, Piece& p, const PaddedTensor& x) {
    const LayerWeights& w = weights_[index(rank)];
    SavedActivations& a = p.saved[index(rank)];
    const std::int64_t kv = shard_.kv();
    const MatrixView rows = kv_[index(rank)].view().row_range(p.begin, p.length);  // K and V are born in place
    gemm(kNo, x.view(), kYes, w.qkv.view().row_range(0, shard_.q()), a.query.view());
    gemm(kNo, x.view(), kYes, w.qkv.view().row_range(shard_.q(), 2 * kv), rows);
    if (sizes_.llama) {
        const RotaryShape shape{shard_.head_dim, shard_.head_dim, 10000};
        const std::vector<float> table = rotary(p);
        rotate(shape, table, RotationSense::kForward, a.query.view());
        rotate(shape, table, RotationSense::kForward, rows.column_range(0, kv));
    } else {
        const std::span<const float> bias = w.qkv_bias;
        add_bias(bias.first(index(shard_.q())), a.query.view());
        add_bias(bias.subspan(index(shard_.q())), rows);
    }
    const MatrixView seen = kv_[index(rank)].view().row_range(0, p.begin + p.length);
    std::vector<float> workspace = space(attention_forward_workspace(attention_shape(p)));
    attention_forward(attention_shape(p), {a.query.view(), seen.column_range(0, kv), seen.column_range(kv, kv)},
                      {a.attention.view(), a.log_sum_exp}, workspace);
    PaddedTensor partial(p.length, sizes_.hidden);
    gemm(kNo, a.attention.view(), kYes, w.projection.view(), partial.view());
    return partial;
}

// mlp: first GEMM, activation, second GEMM; returns partial sums
PaddedTensor DecoderLayer::mlp_forward_of(std::int64_t rank, Piece& p, const PaddedTensor& x) {
    const LayerWeights& w = weights_[index(rank)];
    SavedActivations& a = p.saved[index(rank)];
    gemm(kNo, x.view(), kYes, w.first.view(), a.first.view());
    const MatrixView first = a.first.view();
    if (sizes_.llama) {
        swiglu_forward(first.column_range(0, shard_.ffn), first.column_range(shard_.ffn, shard_.ffn),
                       a.activation.view());
    } else {
        add_bias(w.first_bias, first);
        gelu_forward(GeluForm::kTanh, first, a.activation.view());
    }
    PaddedTensor partial(p.length, sizes_.hidden);
    gemm(kNo, a.activation.view(), kYes, w.second.view(), partial.view());
    return partial;
}

PaddedTensor DecoderLayer::forward(const PaddedTensor& x) {
    PaddedTensor out(x.rows(), x.columns());
    for (Piece& p : pieces_) {
        const auto each = [&](auto f) {
            Shards shards;
            for (std::int64_t r = 0; r < ranks_; ++r) shards.push_back(f(r));
            return shards;
        };
        const auto normed = [&](bool second) {
            return gather(each([&](std::int64_t r) {
                SavedActivations& a = p.saved[index(r)];
                norm_forward(second, r, a);
                return second ? a.norm2 : a.norm1;
            }));
        };
        for (std::int64_t r = 0; r < ranks_; ++r)
            for (std::int64_t t = 0; t < rows(p); ++t)
                std::copy_n(x.view().row(p.begin + r * rows(p) + t), x.columns(),
                            p.saved[index(r)].input.view().row(t));
        const PaddedTensor x1 = normed(false);
        Shards sums = reduce_scatter(each([&](std::int64_t r) { return attention_forward_of(r, p, x1); }));
        for (std::int64_t r = 0; r < ranks_; ++r) {
            SavedActivations& a = p.saved[index(r)];
            if (!sizes_.llama) add_bias(weights_[index(r)].projection_bias, sums[index(r)].view());
            residual_add(a.input.view(), sums[index(r)].view(), a.middle.view());
        }
        const PaddedTensor x2 = normed(true);
        sums = reduce_scatter(each([&](std::int64_t r) { return mlp_forward_of(r, p, x2); }));
        for (std::int64_t r = 0; r < ranks_; ++r) {
            if (!sizes_.llama) add_bias(weights_[index(r)].second_bias, sums[index(r)].view());
            residual_add(p.saved[index(r)].middle.view(), sums[index(r)].view(),
                         out.view().row_range(p.begin + r * rows(p), rows(p)));
        }
    }
    return out;
}

// mlp_data, then mlp_weight; returns partial sums of dX
PaddedTensor DecoderLayer::mlp_backward_of(std::int64_t rank, Piece& p, const PaddedTensor& x, const PaddedTensor& dy) {
    const LayerWeights& w = weights_[index(rank)];
    LayerWeights& g = gradients_[index(rank)];
    const SavedActivations& a = p.saved[index(rank)];
    PaddedTensor dactivation(p.length, shard_.ffn), dfirst(p.length, shard_.first_width()), dx(p.length, sizes_.hidden);
    gemm(kNo, dy.view(), kNo, w.second.view(), dactivation.view());
    gemm(kYes, dy.view(), kNo, a.activation.view(), g.second.view(), Store::kAdd);
    const ConstMatrixView first = a.first.view();
    const MatrixView d = dfirst.view();
    const std::int64_t ffn = shard_.ffn;
    if (sizes_.llama)
        swiglu_backward({dactivation.view(), first.column_range(0, ffn), first.column_range(ffn, ffn)},
                        d.column_range(0, ffn), d.column_range(ffn, ffn));
    else
        gelu_backward(GeluForm::kTanh, dactivation.view(), first, d);
    gemm(kNo, d, kNo, w.first.view(), dx.view());
    gemm(kYes, d, kNo, x.view(), g.first.view(), Store::kAdd);  // mlp_weight
    if (!sizes_.llama) bias_backward(d, g.first_bias);
    return dx;
}

// attention_data, then attention_weight; returns partial sums of dX
PaddedTensor DecoderLayer::attention_backward_of(std::int64_t rank, Piece& p, const PaddedTensor& x,
                                                 const PaddedTensor& dy) {
    const LayerWeights& w = weights_[index(rank)];
    LayerWeights& g = gradients_[index(rank)];
    SavedActivations& a = p.saved[index(rank)];
    const std::int64_t kv = shard_.kv(), end = p.begin + p.length;
    PaddedTensor dout(p.length, shard_.q()), dq(p.length, shard_.q()), dx(p.length, sizes_.hidden);
    gemm(kNo, dy.view(), kNo, w.projection.view(), dout.view());
    gemm(kYes, dy.view(), kNo, a.attention.view(), g.projection.view(), Store::kAdd);
    const MatrixView seen = kv_[index(rank)].view().row_range(0, end),
                     dseen = dkv_[index(rank)].view().row_range(0, end);
    std::vector<float> workspace = space(attention_backward_workspace(attention_shape(p)));
    attention_backward(attention_shape(p), {a.query.view(), seen.column_range(0, kv), seen.column_range(kv, kv)},
                       {a.attention.view(), a.log_sum_exp}, dout.view(),
                       {dq.view(), dseen.column_range(0, kv), dseen.column_range(kv, kv)}, workspace);
    const MatrixView dkv = dseen.row_range(p.begin, p.length);  // complete: all later subsequences have been here
    if (sizes_.llama) {
        const RotaryShape shape{shard_.head_dim, shard_.head_dim, 10000};
        const std::vector<float> table = rotary(p);
        rotate(shape, table, RotationSense::kBackward, dq.view());
        rotate(shape, table, RotationSense::kBackward, dkv.column_range(0, kv));
    }
    gemm(kNo, dq.view(), kNo, w.qkv.view().row_range(0, shard_.q()), dx.view());
    gemm(kNo, dkv, kNo, w.qkv.view().row_range(shard_.q(), 2 * kv), dx.view(), Store::kAdd);
    gemm(kYes, dq.view(), kNo, x.view(), g.qkv.view().row_range(0, shard_.q()), Store::kAdd);  // attention_weight
    gemm(kYes, dkv, kNo, x.view(), g.qkv.view().row_range(shard_.q(), 2 * kv), Store::kAdd);
    if (!sizes_.llama) {
        bias_backward(dq.view(), std::span(g.qkv_bias).first(index(shard_.q())));
        bias_backward(dkv, std::span(g.qkv_bias).subspan(index(shard_.q())));
    }
    return dx;
}

// norm2, norm1: residual becomes residual + the norm's gradient, in place
void DecoderLayer::norm_backward(bool second, std::int64_t rank, const SavedActivations& a, const PaddedTensor& dx,
                                 PaddedTensor& residual) {
    const LayerWeights& w = weights_[index(rank)];
    LayerWeights& g = gradients_[index(rank)];
    const ConstMatrixView x = (second ? a.middle : a.input).view();
    const std::span<const float> weight = second ? w.norm2 : w.norm1;
    const std::span<const float> mean = second ? a.mean2 : a.mean1, r = second ? a.reciprocal2 : a.reciprocal1;
    const std::span<float> dweight = second ? g.norm2 : g.norm1, dbias = second ? g.norm2_bias : g.norm1_bias;
    if (sizes_.llama)
        rms_norm_backward({dx.view(), x, weight, r, residual.view()}, residual.view(), dweight);
    else
        layer_norm_backward({dx.view(), x, weight, mean, r, residual.view()}, residual.view(), dweight, dbias);
}

PaddedTensor DecoderLayer::backward(const PaddedTensor& dy) {
    PaddedTensor out(dy.rows(), dy.columns());
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
        Piece& p = *piece;
        Shards residual;
        for (std::int64_t r = 0; r < ranks_; ++r) {
            residual.emplace_back(rows(p), sizes_.hidden);
            for (std::int64_t t = 0; t < rows(p); ++t)
                std::copy_n(dy.view().row(p.begin + r * rows(p) + t), dy.columns(), residual.back().view().row(t));
        }
        for (const bool second : {true, false}) {
            Shards inputs, partial;
            for (std::int64_t r = 0; r < ranks_; ++r) {
                const SavedActivations& a = p.saved[index(r)];
                inputs.push_back(second ? a.norm2 : a.norm1);
                LayerWeights& g = gradients_[index(r)];
                if (!sizes_.llama) bias_backward(residual[index(r)].view(), second ? g.second_bias : g.projection_bias);
            }
            const PaddedTensor x = gather(inputs), d = gather(residual);
            for (std::int64_t r = 0; r < ranks_; ++r)
                partial.push_back(second ? mlp_backward_of(r, p, x, d) : attention_backward_of(r, p, x, d));
            const Shards dx = reduce_scatter(partial);
            for (std::int64_t r = 0; r < ranks_; ++r)
                norm_backward(second, r, p.saved[index(r)], dx[index(r)], residual[index(r)]);
        }
        for (std::int64_t r = 0; r < ranks_; ++r)
            for (std::int64_t t = 0; t < rows(p); ++t)
                std::copy_n(residual[index(r)].view().row(t), dy.columns(), out.view().row(p.begin + r * rows(p) + t));
    }
    return out;
}

LayerWeights DecoderLayer::gathered_gradients() const {
    LayerWeights whole(sizes_, 0, 0);
    const auto add = [](std::vector<float>& to, const std::vector<float>& from) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    };
    for (std::int64_t r = 0; r < ranks_; ++r) {
        LayerWeights part = gradients_[index(r)];
        move_shard(sizes_, ranks_, r, whole, part, true);
        add(whole.norm1, part.norm1), add(whole.norm2, part.norm2);
        add(whole.norm1_bias, part.norm1_bias), add(whole.norm2_bias, part.norm2_bias);
        add(whole.projection_bias, part.projection_bias), add(whole.second_bias, part.second_bias);
    }
    return whole;
}

}  // namespace sluice
