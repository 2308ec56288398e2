#include <algorithm>
#include <vector>

#include "base/error.h"
#include "runtime/cpu/adamw.h"
#include "runtime/cpu/bias.h"
#include "runtime/cpu/gelu.h"
#include "runtime/cpu/gradient_norm.h"
#include "runtime/cpu/layer_norm.h"
#include "runtime/cpu/residual_add.h"
#include "runtime/cpu/rms_norm.h"
#include "runtime/cpu/rotary_table.h"
#include "runtime/cpu/swiglu.h"
#include "runtime/cpu/token_embedding.h"
#include "runtime/cpu/vocabulary_loss.h"
#include "runtime/profile/kernel_bench.h"

namespace sluice {
namespace {

constexpr std::int64_t kColumns = 512;  // of a row of activations
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kVocabulary = 4096;

std::int64_t rows_for(Bytes traffic, std::int64_t bytes_per_row) {
    return std::max<std::int64_t>(1, traffic.value / bytes_per_row);
}

// Rows of kColumns floats that a call reads or writes `passes` times in all.
std::int64_t rows_for_passes(Bytes traffic, double passes) {
    return rows_for(traffic, static_cast<std::int64_t>(passes * kColumns * 4));
}

Bytes traffic_of(std::int64_t rows, std::int64_t passes) { return Bytes{rows * kColumns * passes * 4}; }

std::vector<TokenId> token_ids(std::int64_t count) {
    std::vector<TokenId> ids(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<TokenId>((i * 2654435761U >> 7) % static_cast<std::size_t>(kVocabulary));
    return ids;
}

std::span<float> vector_of(float* data, std::int64_t count) { return {data, static_cast<std::size_t>(count)}; }

}  // namespace

KernelBench::PointwiseTime KernelBench::time_norm(bool layer_norm, Bytes traffic) {
    const std::int64_t rows = rows_for_passes(traffic, 3);
    const MatrixView x(floats(0, rows * kColumns), rows, kColumns), y(floats(1, rows * kColumns), rows, kColumns);
    const MatrixView dx(floats(2, rows * kColumns), rows, kColumns), passed(floats(3, rows * kColumns), rows, kColumns);
    const auto weight = vector_of(floats(4, kColumns), kColumns), bias = vector_of(floats(5, kColumns), kColumns);
    const auto mean = vector_of(floats(6, rows), rows), reciprocal = vector_of(floats(7, rows), rows);
    const auto dweight = vector_of(floats(8, kColumns), kColumns), dbias = vector_of(floats(9, kColumns), kColumns);
    Measurement both;
    if (layer_norm) {
        both = measure(
                   [&] {
                       layer_norm_forward(x, {weight, bias}, y, {mean, reciprocal});
                   },
                   effort_) +
               measure(
                   [&] {
                       layer_norm_backward({y, x, weight, mean, reciprocal, passed}, dx, dweight, dbias);
                   },
                   effort_);
    } else {
        both = measure([&] { rms_norm_forward(x, weight, 1e-5F, y, reciprocal); }, effort_) +
               measure(
                   [&] {
                       rms_norm_backward({y, x, weight, reciprocal, passed}, dx, dweight);
                   },
                   effort_);
    }
    return {both, traffic_of(rows, 2 + 4), 2};
}

KernelBench::PointwiseTime KernelBench::time_rope(Bytes traffic) {
    const std::int64_t rows = rows_for_passes(traffic, 2);
    const RotaryShape shape{kHeadDim, kHeadDim, 10000};
    const std::int64_t table_floats = rotary_table_bytes(shape, Tokens{rows}).value / 4;
    const MatrixView x(floats(0, rows * kColumns), rows, kColumns);
    std::vector<float> angles(static_cast<std::size_t>(table_floats));
    fill_rotary_table(shape, Tokens{0}, Tokens{rows}, angles);
    return {measure([&] { rotate(shape, angles, RotationSense::kForward, x); }, effort_), traffic_of(rows, 2), 1};
}

KernelBench::PointwiseTime KernelBench::time_swiglu(Bytes traffic) {
    const std::int64_t rows = rows_for_passes(traffic, 4);
    const auto matrix = [&](std::size_t slot) { return MatrixView(floats(slot, rows * kColumns), rows, kColumns); };
    const MatrixView gate = matrix(0), up = matrix(1), y = matrix(2), dgate = matrix(3), dup = matrix(4);
    const Measurement both =
        measure([&] { swiglu_forward(gate, up, y); }, effort_) + measure(
                                                                     [&] {
                                                                         swiglu_backward({y, gate, up}, dgate, dup);
                                                                     },
                                                                     effort_);
    return {both, traffic_of(rows, 3 + 5), 2};
}

KernelBench::PointwiseTime KernelBench::time_gelu(Bytes traffic) {
    constexpr std::int64_t kBiasColumns = kColumns * 9 / 4;
    const std::int64_t rows = rows_for_passes(traffic, 2.5);
    const auto matrix = [&](std::size_t slot) { return MatrixView(floats(slot, rows * kColumns), rows, kColumns); };
    const MatrixView x = matrix(0), y = matrix(1), dx = matrix(2);
    const MatrixView biased(floats(3, rows * kBiasColumns), rows, kBiasColumns);
    const auto bias = vector_of(floats(4, kBiasColumns), kBiasColumns);
    const auto dbias = vector_of(floats(5, kBiasColumns), kBiasColumns);
    const auto forward = [&] {
        add_bias(bias, biased);
        gelu_forward(GeluForm::kTanh, x, y);
    };
    const auto backward = [&] {
        gelu_backward(GeluForm::kTanh, y, x, dx);
        bias_backward(biased, dbias);
    };
    return {measure(forward, effort_) + measure(backward, effort_), traffic_of(rows, 2 + 3), 2};
}

KernelBench::PointwiseTime KernelBench::time_residual(Bytes traffic) {
    const std::int64_t rows = rows_for_passes(traffic, 3);
    const auto matrix = [&](std::size_t slot) { return MatrixView(floats(slot, rows * kColumns), rows, kColumns); };
    const MatrixView a = matrix(0), b = matrix(1), sum = matrix(2);
    return {measure([&] { residual_add(a, b, sum); }, effort_), traffic_of(rows, 3), 1};
}

KernelBench::PointwiseTime KernelBench::time_embedding(Bytes traffic) {
    const std::int64_t rows = rows_for_passes(traffic, 2.5);
    const std::vector<TokenId> ids = token_ids(rows);
    const VocabularyShard shard = vocabulary_shard(kVocabulary, 1, 0);
    const MatrixView out(floats(0, rows * kColumns), rows, kColumns);
    const MatrixView table(floats(1, kVocabulary * kColumns), kVocabulary, kColumns);
    const MatrixView dtable(floats(2, kVocabulary * kColumns), kVocabulary, kColumns);
    const Measurement both =
        measure([&] { static_cast<void>(token_embedding_forward(ids, shard, table, out)); }, effort_) +
        measure([&] { token_embedding_backward(ids, shard, out, dtable); }, effort_);
    return {both, traffic_of(rows, 2 + 3), 2};
}

KernelBench::PointwiseTime KernelBench::time_cross_entropy(Bytes traffic) {
    const std::int64_t tokens = rows_for(traffic, kVocabulary * 12);
    const std::vector<TokenId> targets = token_ids(tokens);
    const VocabularyShard shard = vocabulary_shard(kVocabulary, 1, 0);
    const MatrixView logits(floats(0, tokens * kVocabulary), tokens, kVocabulary);
    std::vector<LossPartial> partials(static_cast<std::size_t>(tokens));
    const auto lse = vector_of(floats(1, tokens), tokens);
    const auto call = [&] {
        static_cast<void>(loss_partials(logits, targets, shard, partials));
        static_cast<void>(combine_loss_partials(partials, 1, lse));
        logits_gradient(lse, targets, shard, Tokens{tokens}, logits);
    };
    const Measurement time = measure(call, effort_);
    slots_[0].clear();  // holds gradients now
    return {time, Bytes{tokens * kVocabulary * 12}, 1};
}

KernelBench::PointwiseTime KernelBench::time_adamw(Bytes traffic) {
    const std::int64_t count = rows_for(traffic, 32);
    const auto gradients = vector_of(floats(0, count), count), weights = vector_of(floats(1, count), count);
    std::vector<float> first(static_cast<std::size_t>(count), 0.01F), second(static_cast<std::size_t>(count), 0.01F);
    AdamwStep step;
    step.learning_rate = 1e-4F;
    step.step = 100;
    return {measure([&] { adamw(step, gradients, {weights, first, second}); }, effort_), Bytes{count * 32}, 1};
}

KernelBench::PointwiseTime KernelBench::time_gradient_norm(Bytes traffic) {
    const std::int64_t count = rows_for(traffic, 4);
    const auto gradients = vector_of(floats(0, count), count);
    double total = 0;
    const Measurement time = measure([&] { total += sum_of_squares(gradients); }, effort_);
    SLUICE_CHECK(total >= 0, "a sum of squares is not negative");  // and the sum is not left out
    return {time, Bytes{count * 4}, 1};
}

KernelBench::PointwiseTime KernelBench::time(PointwiseKernel kernel, Bytes traffic) {
    using enum PointwiseKernel;
    switch (kernel) {
        case kLayerNorm:
        case kRmsNorm:
            return time_norm(kernel == kLayerNorm, traffic);
        case kRope:
            return time_rope(traffic);
        case kSwiglu:
            return time_swiglu(traffic);
        case kGelu:
            return time_gelu(traffic);
        case kResidual:
            return time_residual(traffic);
        case kEmbedding:
            return time_embedding(traffic);
        case kCrossEntropy:
            return time_cross_entropy(traffic);
        case kAdamw:
            return time_adamw(traffic);
        case kOther:
            return time_gradient_norm(traffic);
        case kNorm:
        case kActivation:
        case kAccumulate:
            break;
    }
    SLUICE_CHECK(false, "the CPU backend has a function for the kernel");
}

}  // namespace sluice
