#include "runtime/cuda/kernel_rates.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "runtime/cuda/activation.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/norm.h"
#include "runtime/cuda/operand_pool.h"
#include "runtime/cuda/optimizer.h"
#include "runtime/cuda/rotary.h"
#include "runtime/cuda/token_embedding.h"
#include "runtime/cuda/vocabulary_loss.h"
#include "runtime/cuda/zipf_tokens.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kVocabulary = 32000;

struct Bench {
    Seconds each;
    std::string_view only;
    const std::function<void(const KernelRate&)>& report;
    OperandPool pool{12_GiB};
    Uploaded<float> scratch_memory{std::vector<float>(static_cast<std::size_t>(kScratchFloats))};
    Uploaded<float> accumulators{std::vector<float>(1 << 20)};  // gradients of weights and biases, statistics

    Scratch scratch() const { return {scratch_memory.data(), kScratchFloats}; }

    // `bytes_per_element` of rows * columns elements.
    void run(const char* kernel, std::int64_t rows, std::int64_t columns, double bytes_per_element,
             const std::function<void()>& call) const {
        const double elements = static_cast<double>(rows) * static_cast<double>(columns);
        run(kernel, fmt::format("{} x {}", rows, columns),
            Bytes{static_cast<std::int64_t>(elements * bytes_per_element)}, call);
    }
    void run(const char* kernel, const std::string& shape, Bytes traffic, const std::function<void()>& call) const {
        if (std::string_view(kernel).find(only) == std::string_view::npos) return;
        pool.refill();
        report({kernel, shape, traffic, sustained(each, call)});
    }
};

void norms(Bench& b, std::int64_t rows, std::int64_t hidden) {
    OperandPool& p = b.pool;
    float* const weight_gradient = b.accumulators.data();
    float* const bias_gradient = weight_gradient + hidden;
    float* const statistics = bias_gradient + hidden;
    const Bf16* const weight = p.take<Bf16>(hidden);
    for (const bool centred : {false, true}) {
        const NormWeights w{weight, centred ? weight : nullptr, 1e-5F};
        const NormGradients gradients{weight_gradient, centred ? bias_gradient : nullptr};
        const auto name = [&](const char* rms, const char* layer) { return centred ? layer : rms; };
        b.run(name("rms_norm_forward", "layer_norm_forward"), rows, hidden, 4,
              [&] { norm_forward(nullptr, p.bf16(rows, hidden), w, p.bf16(rows, hidden), statistics); });
        b.run(name("copy_rms_norm_forward", "copy_layer_norm_forward"), rows, hidden, 6, [&] {
            copy_norm_forward(nullptr, p.bf16(rows, hidden), p.bf16(rows, hidden), w, p.bf16(rows, hidden), statistics);
        });
        b.run(name("residual_rms_norm_forward", "residual_layer_norm_forward"), rows, hidden, 8, [&] {
            residual_norm_forward(nullptr, p.bf16(rows, hidden), p.bf16(rows, hidden), p.bf16(rows, hidden), w,
                                  p.bf16(rows, hidden), statistics);
        });
        b.run(name("rms_norm_backward", "layer_norm_backward"), rows, hidden, 6, [&] {
            norm_backward(nullptr, {p.bf16(rows, hidden), p.bf16(rows, hidden), w, statistics, {}},
                          p.bf16(rows, hidden), gradients, b.scratch());
        });
        b.run(name("rms_norm_backward, passed", "layer_norm_backward, passed"), rows, hidden, 8, [&] {
            norm_backward(nullptr, {p.bf16(rows, hidden), p.bf16(rows, hidden), w, statistics, p.bf16(rows, hidden)},
                          p.bf16(rows, hidden), gradients, b.scratch());
        });
    }
}

void elementwise(Bench& b, std::int64_t rows, std::int64_t hidden) {
    OperandPool& p = b.pool;
    float* const sums = b.accumulators.data();
    const Bf16* const bias = p.take<Bf16>(hidden);
    b.run("residual_add", rows, hidden, 6,
          [&] { residual_add(nullptr, p.bf16(rows, hidden), p.bf16(rows, hidden), p.bf16(rows, hidden)); });
    b.run("add_bias", rows, hidden, 4, [&] { add_bias(nullptr, bias, p.bf16(rows, hidden)); });
    b.run("bias_backward", rows, hidden, 2, [&] { bias_backward(nullptr, p.bf16(rows, hidden), sums, b.scratch()); });
    b.run("accumulate", rows, hidden, 10,
          [&] { accumulate(nullptr, p.bf16(rows, hidden), p.fp32(rows, hidden), false); });
    b.run("accumulate, begins", rows, hidden, 6,
          [&] { accumulate(nullptr, p.bf16(rows, hidden), p.fp32(rows, hidden), true); });
}

void rotations(Bench& b, std::int64_t rows, std::int64_t hidden) {
    OperandPool& p = b.pool;
    const RotaryShape shape{128, 128, 5e5};
    constexpr std::int64_t kKeyColumns = 8 * 128;
    b.run("rotate", rows, hidden, 4,
          [&] { rotate(nullptr, shape, Tokens{100000}, RotationSense::kForward, p.bf16(rows, hidden)); });
    b.run("rotate, K beside V", rows, kKeyColumns, 4, [&] {
        rotate(nullptr, shape, Tokens{100000}, RotationSense::kForward,
               p.bf16(rows, 2 * kKeyColumns).column_range(0, kKeyColumns));
    });
    b.run("rotate_and_round, K beside V", rows, kKeyColumns, 8, [&] {
        rotate_and_round(nullptr, shape, Tokens{100000}, RotationSense::kBackward, kKeyColumns,
                         p.fp32(rows, 2 * kKeyColumns).column_range(0, kKeyColumns), p.bf16(rows, kKeyColumns),
                         p.bf16(rows, 2 * kKeyColumns).column_range(0, kKeyColumns));
    });
    b.run("rotate_and_round, V beside K", rows, kKeyColumns, 8, [&] {
        rotate_and_round(nullptr, shape, Tokens{100000}, RotationSense::kBackward, 0,
                         p.fp32(rows, 2 * kKeyColumns).column_range(kKeyColumns, kKeyColumns),
                         p.bf16(rows, kKeyColumns),
                         p.bf16(rows, 2 * kKeyColumns).column_range(kKeyColumns, kKeyColumns));
    });
    b.run("rotate_and_round, Q", rows, hidden, 6, [&] {
        rotate_and_round(nullptr, shape, Tokens{100000}, RotationSense::kBackward, hidden, p.bf16(rows, hidden),
                         p.bf16(rows, hidden), p.bf16(rows, hidden));
    });
}

void embeddings(Bench& b, std::int64_t rows, std::int64_t hidden) {
    OperandPool& p = b.pool;
    const std::vector<TokenId> ids = zipf_tokens(rows, kVocabulary);
    const VocabularyShard shard{kVocabulary, 0, kVocabulary};
    const SortedTokens sorted = sort_tokens(ids, shard);
    const Uploaded<TokenId> device_ids(ids);
    const Uploaded<std::int32_t> token(sorted.token), row(sorted.row), begin(sorted.begin);
    const DeviceSortedTokens on_device{token.data(), row.data(), begin.data(), std::ssize(sorted.row)};
    const auto distinct = static_cast<double>(sorted.row.size()) / static_cast<double>(rows);
    b.run("token_embedding_forward", rows, hidden, 2 + 2 * distinct, [&] {
        token_embedding_forward(nullptr, device_ids.data(), shard, p.bf16(kVocabulary, hidden), p.bf16(rows, hidden));
    });
    b.run("token_embedding_backward", rows, hidden, 2 + 8 * distinct,
          [&] { token_embedding_backward(nullptr, on_device, p.bf16(rows, hidden), p.fp32(kVocabulary, hidden)); });
}

void activations(Bench& b, std::int64_t rows, std::int64_t ffn) {
    OperandPool& p = b.pool;
    const auto m = [&] { return p.bf16(rows, ffn); };
    b.run("swiglu_forward", rows, ffn, 6, [&] { swiglu_forward(nullptr, m(), m(), m()); });
    b.run("swiglu_backward", rows, ffn, 10, [&] { swiglu_backward(nullptr, m(), m(), m(), m(), m(), {}); });
    b.run("swiglu_backward, y again", rows, ffn, 12, [&] { swiglu_backward(nullptr, m(), m(), m(), m(), m(), m()); });
    for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf}) {
        const bool tanh = form == GeluForm::kTanh;
        b.run(tanh ? "gelu_forward, tanh" : "gelu_forward, erf", rows, ffn, 4,
              [&] { gelu_forward(nullptr, form, m(), m()); });
        b.run(tanh ? "gelu_backward, tanh" : "gelu_backward, erf", rows, ffn, 6,
              [&] { gelu_backward(nullptr, form, m(), m(), m(), {}); });
        b.run(tanh ? "gelu_backward, tanh, y again" : "gelu_backward, erf, y again", rows, ffn, 8,
              [&] { gelu_backward(nullptr, form, m(), m(), m(), m()); });
    }
}

void loss(Bench& b, std::int64_t tokens, std::int64_t vocabulary) {
    OperandPool& p = b.pool;
    const VocabularyShard shard{vocabulary, 0, vocabulary};
    const Uploaded<TokenId> targets(zipf_tokens(tokens, kVocabulary));
    const Uploaded<float> log_sum_exp(std::vector<float>(static_cast<std::size_t>(tokens), 11));
    const Uploaded<double> sum(std::vector<double>(1));
    const Uploaded<LossPartial> partials(std::vector<LossPartial>(static_cast<std::size_t>(tokens), {1, 9, 0}));
    b.run("loss_partials", tokens, vocabulary, 4,
          [&] { loss_partials(nullptr, p.fp32(tokens, vocabulary), targets.data(), shard, partials.data()); });
    b.run("combine_loss_partials", tokens, 1, 20,
          [&] { combine_loss_partials(nullptr, partials.data(), 1, tokens, log_sum_exp.data(), sum.data()); });
    b.run("logits_gradient", tokens, vocabulary, 6, [&] {
        logits_gradient(nullptr, log_sum_exp.data(), targets.data(), shard, Tokens{tokens}, p.fp32(tokens, vocabulary));
    });
}

void optimizer(Bench& b) {
    OperandPool& p = b.pool;
    constexpr std::int64_t kParameters = 100'000'000;
    const Uploaded<double> squares(std::vector<double>{1});
    const Uploaded<unsigned long long> count(std::vector<unsigned long long>{0});
    b.run("sum_of_squares", kParameters, 1, 4,
          [&] { sum_of_squares(nullptr, p.take<float>(kParameters), kParameters, squares.data(), b.scratch()); });
    b.run("round_to_bf16", kParameters, 1, 6,
          [&] { round_to_bf16(nullptr, p.take<float>(kParameters), p.take<Bf16>(kParameters), kParameters); });
    b.run("count_non_finite, fp32", kParameters, 1, 4,
          [&] { count_non_finite(nullptr, p.take<float>(kParameters), kParameters, count.data()); });
    b.run("count_non_finite, bf16", kParameters, 1, 2,
          [&] { count_non_finite(nullptr, p.take<Bf16>(kParameters), kParameters, count.data()); });
    // its own memory: second moments are not below 0. 3 GB, far more than a cache holds
    const Uploaded<double> norm(std::vector<double>{4});
    MeasurementMemory states(Bytes{3 * 4 * kParameters});
    states.fill_with_zeros();
    auto* const moments = reinterpret_cast<float*>(states.data());
    b.run("adamw", kParameters, 1, 30, [&] {
        adamw(nullptr, {1e-4F}, 1.0, norm.data(),
              {p.take<float>(kParameters), moments, moments + kParameters, moments + 2 * kParameters,
               p.take<Bf16>(kParameters), kParameters});
    });
}

}  // namespace

void kernel_rates(Seconds each, std::string_view only, const std::function<void(const KernelRate&)>& report) {
    Bench b{each, only, report};
    for (const std::int64_t rows : {8192, 32768}) {
        for (const std::int64_t hidden : {2048, 3072}) {
            norms(b, rows, hidden);
            elementwise(b, rows, hidden);
            rotations(b, rows, hidden);
            embeddings(b, rows, hidden);
        }
        activations(b, rows, 8192);
    }
    for (const std::int64_t vocabulary : {std::int64_t{32000}, std::int64_t{50257}}) loss(b, 8192, vocabulary);
    optimizer(b);
}

}  // namespace sluice::cuda
