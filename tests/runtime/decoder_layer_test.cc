// A whole layer, cut into ranks and subsequences, against an uncut layer in double that shares no code with it.
#include "tests/runtime/decoder_layer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <numbers>

#include "tests/runtime/attention_case.h"
#include "tests/runtime/finite_differences.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;
constexpr std::int64_t kTokens = 20;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

struct ReferenceWeights {
    Doubles qkv, projection, first, second, norm1, norm2, norm1_bias, norm2_bias;
    Doubles qkv_bias, first_bias, projection_bias, second_bias;
    explicit ReferenceWeights(const LayerWeights& w)
        : qkv(w.qkv.doubles()),
          projection(w.projection.doubles()),
          first(w.first.doubles()),
          second(w.second.doubles()),
          norm1(doubles(w.norm1)),
          norm2(doubles(w.norm2)),
          norm1_bias(doubles(w.norm1_bias)),
          norm2_bias(doubles(w.norm2_bias)),
          qkv_bias(doubles(w.qkv_bias)),
          first_bias(doubles(w.first_bias)),
          projection_bias(doubles(w.projection_bias)),
          second_bias(doubles(w.second_bias)) {}
};

// (tokens, in) times (out, in)^T plus bias
Doubles linear(const Doubles& x, const Doubles& w, const Doubles& bias, bool biased) {
    const std::size_t out = bias.size(), in = w.size() / out;
    Doubles y;
    for (std::size_t t = 0; t < x.size() / in; ++t)
        for (std::size_t o = 0; o < out; ++o) {
            double sum = biased ? bias[o] : 0;
            for (std::size_t i = 0; i < in; ++i) sum += x[t * in + i] * w[o * in + i];
            y.push_back(sum);
        }
    return y;
}

Doubles norm(bool llama, const Doubles& x, const Doubles& w, const Doubles& bias) {
    const std::size_t n = w.size();
    Doubles y(x.size());
    for (std::size_t t = 0; t < x.size() / n; ++t) {
        double mean = 0, squares = 0;
        for (std::size_t c = 0; c < n && !llama; ++c) mean += x[t * n + c] / static_cast<double>(n);
        for (std::size_t c = 0; c < n; ++c) squares += std::pow(x[t * n + c] - mean, 2) / static_cast<double>(n);
        for (std::size_t c = 0; c < n; ++c)
            y[t * n + c] = w[c] * (x[t * n + c] - mean) / std::sqrt(squares + static_cast<double>(kNormEpsilon)) +
                           (llama ? 0 : bias[c]);
    }
    return y;
}

// Columns [from, from + width) of every row, heads of `head_dim` turned by their positions.
Doubles columns(const LayerSizes& s, const Doubles& x, std::int64_t from, std::int64_t width, bool turned) {
    Doubles y;
    const std::size_t row = size(s.q() + 2 * s.kv());
    for (std::size_t t = 0; t < x.size() / row; ++t) {
        Doubles part(x.begin() + static_cast<std::ptrdiff_t>(t * row) + from,
                     x.begin() + static_cast<std::ptrdiff_t>(t * row) + from + width);
        const std::size_t d = size(s.head_dim), half = d / 2;
        for (std::size_t h = 0; h < part.size() && turned; h += d)
            for (std::size_t j = 0; j < half; ++j) {
                const double angle =
                    static_cast<double>(t) * std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half));
                const auto z = std::complex<double>(part[h + j], part[h + half + j]) * std::polar(1.0, angle);
                part[h + j] = z.real(), part[h + half + j] = z.imag();
            }
        y.insert(y.end(), part.begin(), part.end());
    }
    return y;
}

Doubles activation(const LayerSizes& s, const Doubles& first) {
    Doubles y;
    const std::size_t width = size(s.first_width());
    for (std::size_t t = 0; t < first.size() / width; ++t)
        for (std::size_t c = 0; c < size(s.ffn); ++c) {
            const double x = first[t * width + c];
            y.push_back(s.llama
                            ? x / (1 + std::exp(-x)) * first[t * width + size(s.ffn) + c]
                            : x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x))));
        }
    return y;
}

Doubles reference(const LayerSizes& s, const Doubles& x, const ReferenceWeights& w) {
    const bool biased = !s.llama;
    const Doubles qkv = linear(norm(s.llama, x, w.norm1, w.norm1_bias), w.qkv, w.qkv_bias, biased);
    const Doubles attention =
        reference_attention({kTokens, s.heads, s.kv_heads, s.head_dim}, 0, columns(s, qkv, 0, s.q(), s.llama),
                            columns(s, qkv, s.q(), s.kv(), s.llama), columns(s, qkv, s.q() + s.kv(), s.kv(), false));
    Doubles middle = linear(attention, w.projection, w.projection_bias, biased);
    for (std::size_t i = 0; i < x.size(); ++i) middle[i] += x[i];
    const Doubles first = linear(norm(s.llama, middle, w.norm2, w.norm2_bias), w.first, w.first_bias, biased);
    Doubles y = linear(activation(s, first), w.second, w.second_bias, biased);
    for (std::size_t i = 0; i < x.size(); ++i) y[i] += middle[i];
    return y;
}

struct Cut {
    std::int64_t ranks;
    std::vector<std::int64_t> lengths;
};
const Cut kCuts[] = {{1, {20}}, {1, {7, 12, 1}}, {2, {20}}, {2, {4, 10, 6}}};

class DecoderLayerTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, DecoderLayerTest, testing::Bool(),
                         [](const auto& p) { return std::string(p.param ? "Llama" : "Gpt"); });

TEST_P(DecoderLayerTest, EveryCutAgreesWithTheUncutLayerInDouble) {
    LayerSizes s;
    s.llama = GetParam();
    const PaddedTensor x = PaddedTensor::random(kTokens, s.hidden, 1), dy = PaddedTensor::random(kTokens, s.hidden, 2);
    for (const Cut& cut : kCuts) {
        DecoderLayer layer(s, cut.ranks, cut.lengths);
        const ReferenceWeights w(layer.weights());
        EXPECT_LT(relative_error(layer.forward(x).doubles(), reference(s, x.doubles(), w)), 2e-6);
        const PaddedTensor dx = layer.backward(dy);
        const ReferenceWeights g(layer.gathered_gradients());
        const Doubles d = dy.doubles();
        expect_gradient(
            "dx", [&](const Doubles& v) { return dot(d, reference(s, v, w)); }, x.doubles(), dx.doubles(), 5e-6);
        const auto of_weight = [&](const char* name, Doubles ReferenceWeights::*member) {
            const auto loss = [&, changed = w](const Doubles& v) mutable {
                changed.*member = v;
                return dot(d, reference(s, x.doubles(), changed));
            };
            expect_gradient(name, loss, w.*member, g.*member, 5e-6);
        };
        of_weight("qkv", &ReferenceWeights::qkv);
        of_weight("projection", &ReferenceWeights::projection);
        of_weight("first", &ReferenceWeights::first);
        of_weight("second", &ReferenceWeights::second);
        of_weight("norm1", &ReferenceWeights::norm1);
        of_weight("norm2", &ReferenceWeights::norm2);
        if (s.llama) continue;
        of_weight("norm1 bias", &ReferenceWeights::norm1_bias);
        of_weight("norm2 bias", &ReferenceWeights::norm2_bias);
        of_weight("qkv bias", &ReferenceWeights::qkv_bias);
        of_weight("first bias", &ReferenceWeights::first_bias);
        of_weight("projection bias", &ReferenceWeights::projection_bias);
        of_weight("second bias", &ReferenceWeights::second_bias);
    }
}

}  // namespace
}  // namespace sluice
