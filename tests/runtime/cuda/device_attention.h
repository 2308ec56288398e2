// One call of attention on the device and, from the same values rounded to bf16, on the CPU in fp32. K and V are one
// buffer of [token][K or V][kv_head][head_dim], as a layer keeps them.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/rotary_table.h"
#include "runtime/cuda/attention.h"
#include "tests/runtime/cuda/device_array.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice::cuda {

struct AttentionInput {
    std::int64_t begin, length, heads, kv_heads, head_dim;
    std::int64_t gap = 0;      // elements between the rows of the query, and of its gradient
    float score = 2;           // size of the query's values
    float low = 0;             // all scores are about this much below zero
    bool turned_back = false;  // by RoPE
    std::int64_t keys_at_once = 131072, queries_at_once = 8192;

    AttentionShape shape() const { return {Tokens{begin}, Tokens{length}, heads, kv_heads, head_dim}; }
    std::int64_t keys() const { return begin + length; }
    std::int64_t width() const { return heads * head_dim; }
    std::int64_t kv_width() const { return kv_heads * head_dim; }
    std::int64_t query_stride() const { return width() + gap; }
    RotaryShape rotary() const { return {head_dim, head_dim, 10000}; }

    friend void PrintTo(const AttentionInput& c, std::ostream* out) {
        *out << c.begin << "+" << c.length << ", " << c.heads << "/" << c.kv_heads << " x " << c.head_dim << ", gap "
             << c.gap << ", " << c.keys_at_once << " keys, " << c.queries_at_once << " queries at once"
             << (c.low > 0 ? ", low scores" : "") << (c.turned_back ? ", turned back" : "");
    }
};

inline std::vector<float> through_bf16(std::vector<float> values) {
    for (float& v : values) v = to_float(to_bf16(v));
    return values;
}

// Values and results in fp32 on the host; rows of query, dquery with gaps.
struct AttentionValues {
    std::vector<float> query, key_value, dout;
    std::vector<float> out, log_sum_exp, dquery, dkey_value;  // dkey_value: before and after
};

inline std::size_t size_of(std::int64_t rows, std::int64_t stride) { return static_cast<std::size_t>(rows * stride); }

inline AttentionValues attention_inputs(const AttentionInput& c) {
    AttentionValues v;
    v.query = random_floats(size_of(c.length, c.query_stride()), 1, c.score);
    v.key_value = random_floats(size_of(c.keys(), 2 * c.kv_width()), 2);
    // One column of every query and key carries the common part of all scores: q0 k0 / sqrt(d) = -low.
    if (c.low > 0) {
        const float part = std::sqrt(c.low * std::sqrt(static_cast<float>(c.head_dim)));
        for (std::int64_t t = 0; t < c.length; ++t)
            for (std::int64_t h = 0; h < c.heads; ++h)
                v.query[size_of(t, c.query_stride()) + size_of(h, c.head_dim)] = part;
        for (std::int64_t t = 0; t < c.keys(); ++t)
            for (std::int64_t h = 0; h < c.kv_heads; ++h)
                v.key_value[size_of(t, 2 * c.kv_width()) + size_of(h, c.head_dim)] = -part;
    }
    v.query = through_bf16(v.query);
    v.key_value = through_bf16(v.key_value);
    v.dout = through_bf16(random_floats(size_of(c.length, c.width()), 3));
    return v;
}

// The CPU's kernels; gradients of keys and values are added to `dkey_value`.
inline AttentionValues on_cpu(const AttentionInput& c, std::vector<float> dkey_value) {
    AttentionValues v = attention_inputs(c);
    v.out.resize(size_of(c.length, c.width()));
    v.log_sum_exp.resize(size_of(c.length, c.heads));
    v.dquery.resize(size_of(c.length, c.query_stride()));
    v.dkey_value = std::move(dkey_value);
    const auto kv = [&](std::vector<float>& all, std::int64_t which) {
        return MatrixView(all.data() + which * c.kv_width(), c.keys(), c.kv_width(), 2 * c.kv_width());
    };
    const MatrixView query(v.query.data(), c.length, c.width(), c.query_stride()),
        out(v.out.data(), c.length, c.width());
    const MatrixView dquery(v.dquery.data(), c.length, c.width(), c.query_stride());
    const sluice::AttentionOperands in{query, kv(v.key_value, 0), kv(v.key_value, 1)};
    std::vector<float> forward(static_cast<std::size_t>(attention_forward_workspace(c.shape()).value) / sizeof(float));
    attention_forward(c.shape(), in, {out, v.log_sum_exp}, forward);
    std::vector<float> backward(static_cast<std::size_t>(attention_backward_workspace(c.shape()).value) /
                                sizeof(float));
    attention_backward(c.shape(), in, {out, std::span<const float>(v.log_sum_exp)},
                       MatrixView(v.dout.data(), c.length, c.width()),
                       {dquery, kv(v.dkey_value, 0), kv(v.dkey_value, 1)}, backward);
    if (c.turned_back) {
        std::vector<float> table(static_cast<std::size_t>(rotary_table_bytes(c.rotary(), Tokens{c.length}).value) /
                                 sizeof(float));
        fill_rotary_table(c.rotary(), Tokens{c.begin}, Tokens{c.length}, table);
        rotate(c.rotary(), table, RotationSense::kBackward, dquery);
    }
    return v;
}

class AttentionOnDevice {
public:
    AttentionOnDevice(const AttentionInput& c, std::vector<float> dkey_value, bool deterministic = false)
        : c_(c),
          values_(attention_inputs(c)),
          plans_(deterministic, Tokens{c.keys_at_once}, Tokens{c.queries_at_once}),
          query_(rounded(values_.query)),
          key_value_(rounded(values_.key_value)),
          dout_(rounded(values_.dout)),
          out_(size_of(c.length, c.width())),
          dquery_(size_of(c.length, c.query_stride())),
          log_sum_exp_(size_of(c.length, c.heads)),
          before_(std::move(dkey_value)),
          dkey_value_(before_) {
        plans_.prepare(c.shape(), {c.query_stride(), 2 * c.kv_width(), c.query_stride()});
        forward_space_ = std::make_unique<DeviceArray<std::byte>>(
            static_cast<std::size_t>(plans_.forward_workspace(c.shape()).value));
        backward_space_ = std::make_unique<DeviceArray<std::byte>>(
            static_cast<std::size_t>(plans_.backward_workspace(c.shape()).value));
    }

    void forward() {
        plans_.forward(nullptr, c_.shape(), operands(), {out(), log_sum_exp_.data()}, forward_space_->data());
    }
    void backward(bool begins, bool adds_own = true) {
        const auto gradient = [&](std::int64_t which) {
            return Fp32Matrix(dkey_value_.data() + which * c_.kv_width(), c_.keys(), c_.kv_width(), 2 * c_.kv_width());
        };
        AttentionGradients gradients{Bf16Matrix(dquery_.data(), c_.length, c_.width(), c_.query_stride()),
                                     gradient(0),
                                     gradient(1),
                                     begins,
                                     std::nullopt,
                                     adds_own};
        if (c_.turned_back) gradients.turned_back = c_.rotary();
        plans_.backward(nullptr, c_.shape(), operands(), {out(), log_sum_exp_.data()},
                        ConstBf16Matrix(dout_.data(), c_.length, c_.width()), gradients, backward_space_->data());
    }
    // What backward() left, as rows of K beside V.
    std::vector<float> own_gradients() const {
        const OwnKeyGradients own = plans_.own_gradients(c_.shape(), backward_space_->data());
        std::vector<Bf16> rows(size_of(c_.length, 2 * c_.kv_width()));
        const auto bytes = static_cast<std::size_t>(c_.kv_width()) * sizeof(Bf16);
        for (std::int64_t t = 0; t < c_.length; ++t)
            for (const auto& [from, column] :
                 {std::pair(own.key, std::int64_t{0}), std::pair(own.value, c_.kv_width())})
                must(cudaMemcpy(rows.data() + 2 * t * c_.kv_width() + column, from.row(t), bytes,
                                cudaMemcpyDeviceToHost),
                     "own gradients");
        return floats(rows);
    }
    std::string choices() const {
        std::string all;
        for (const std::string& choice : plans_.choices()) all += choice + "\n";
        return all;
    }
    void restore_gradients() { dkey_value_.upload(before_); }

    AttentionValues results() const {
        AttentionValues v;
        v.out = floats(out_.download());
        v.log_sum_exp = log_sum_exp_.download();
        v.dquery = floats(dquery_.download());
        v.dkey_value = dkey_value_.download();
        return v;
    }
    bool guards_intact() const {
        return out_.guard_intact() && dquery_.guard_intact() && log_sum_exp_.guard_intact() &&
               dkey_value_.guard_intact() && forward_space_->guard_intact() && backward_space_->guard_intact();
    }

private:
    AttentionOperands operands() const {
        const auto kv = [&](std::int64_t which) {
            return ConstBf16Matrix(key_value_.data() + which * c_.kv_width(), c_.keys(), c_.kv_width(),
                                   2 * c_.kv_width());
        };
        return {ConstBf16Matrix(query_.data(), c_.length, c_.width(), c_.query_stride()), kv(0), kv(1)};
    }
    Bf16Matrix out() const { return {out_.data(), c_.length, c_.width()}; }

    AttentionInput c_;
    AttentionValues values_;
    AttentionPlans plans_;
    DeviceArray<Bf16> query_, key_value_, dout_, out_, dquery_;
    DeviceArray<float> log_sum_exp_;
    std::vector<float> before_;
    DeviceArray<float> dkey_value_;
    std::unique_ptr<DeviceArray<std::byte>> forward_space_, backward_space_;
};

// |got - want| / |want| over the first `columns` of rows `stride` apart.
inline double norm_error(const std::vector<float>& got, const std::vector<float>& want, std::int64_t columns,
                         std::int64_t stride, std::int64_t first = 0) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        const std::int64_t column = static_cast<std::int64_t>(i) % stride;
        if (column < first || column >= first + columns) continue;
        difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
        size += std::pow(static_cast<double>(want[i]), 2);
    }
    return std::sqrt(difference / size);
}

}  // namespace sluice::cuda
