#include "runtime/cuda_profile/memory_bound_bench.h"

#include <algorithm>

#include "runtime/cuda/activation.h"
#include "runtime/cuda/elementwise.h"
#include "runtime/cuda/norm.h"
#include "runtime/cuda/optimizer.h"
#include "runtime/cuda/rotary.h"
#include "runtime/cuda/token_embedding.h"
#include "runtime/cuda/vocabulary_loss.h"
#include "runtime/cuda/zipf_tokens.h"

namespace sluice::cuda {
namespace {

using enum PointwiseKernel;

constexpr std::int64_t kHidden = 3072, kFfn = 8192, kVocabulary = 32000;
constexpr std::int64_t kQueryColumns = 3072, kKeyColumns = 1024;
constexpr RotaryShape kRotary{128, 128, 5e5};
constexpr Tokens kPosition{100000};
constexpr Bytes kPool = 12_GiB;
constexpr std::int64_t kSums = 1 << 20;

std::int64_t rows_for(Bytes traffic, std::int64_t bytes_per_row) {
    return std::max<std::int64_t>(8, traffic.value / bytes_per_row / 8 * 8);
}

// Calls of a step's size: a layer's activations; a chunk of the loss; all parameters, some hundred million at once.
std::vector<Bytes> traffics(PointwiseKernel kernel) {
    if (kernel == kCrossEntropy) return {192_MiB, 768_MiB, 3000_MiB};
    if (kernel == kAdamw || kernel == kOther) return {256_MiB, 1_GiB, 4_GiB};
    return {16_MiB, 128_MiB, 1_GiB};
}

}  // namespace

std::vector<MemoryBoundCall> profiled_memory_bound(bool quick) {
    std::vector<MemoryBoundCall> all;
    for (const PointwiseKernel kernel :
         {kLayerNorm, kRmsNorm, kRope, kGelu, kSwiglu, kResidual, kEmbedding, kCrossEntropy, kAdamw, kOther}) {
        const std::vector<Bytes> sizes = traffics(kernel);
        for (std::size_t i = quick ? 1 : 0; i < sizes.size(); ++i) all.push_back({kernel, sizes[i]});
    }
    return all;
}

std::vector<MemoryBoundCall> other_memory_bound(bool quick) {
    if (quick) return {{kRmsNorm, 300_MiB}, {kSwiglu, 300_MiB}};
    return {{kLayerNorm, 48_MiB}, {kRmsNorm, 48_MiB}, {kRmsNorm, 400_MiB},      {kRope, 64_MiB},
            {kGelu, 300_MiB},     {kSwiglu, 60_MiB},  {kSwiglu, 400_MiB},       {kResidual, 300_MiB},
            {kEmbedding, 60_MiB}, {kAdamw, 2_GiB},    {kCrossEntropy, 1500_MiB}};
}

MemoryBoundBench::MemoryBoundBench(GpuTimer& timer, Seconds at_least)
    : timer_(timer), at_least_(at_least), pool_(kPool), scratch_(Bytes{4 * kScratchFloats}), sums_(Bytes{4 * kSums}) {
    sums_.fill_with_zeros();
}

Measurement MemoryBoundBench::timed(const std::function<void()>& call) {
    pool_.refill();
    return timer_.time(call, at_least_);
}

PointwiseFigure MemoryBoundBench::norm(bool centred, Bytes traffic) {
    const std::int64_t rows = rows_for(traffic, 3 * 2 * kHidden);
    const Bf16* const weight = pool_.take<Bf16>(kHidden);
    const NormWeights w{weight, centred ? weight : nullptr, 1e-5F};
    const NormGradients gradients{sums(), centred ? sums() + kHidden : nullptr};
    float* const statistics = sums() + 2 * kHidden;
    const auto x = [&] { return pool_.bf16(rows, kHidden); };
    const Measurement alone = timed([&] { residual_add(stream(), x(), x(), x()); });
    const Measurement forward = timed([&] { residual_norm_forward(stream(), x(), x(), x(), w, x(), statistics); });
    const Measurement backward = timed([&] {
        norm_backward(stream(), {x(), x(), w, statistics, x()}, x(), gradients, scratch());
    });
    return {centred ? kLayerNorm : kRmsNorm, without(forward, alone.median) + backward,
            Bytes{rows * kHidden * 2 * (2 + 4)}, 2};
}

// Forward turns query and key; backward the own keys' last sums alone, beside those of the values: dQ is turned back in
// the call of attention.
PointwiseFigure MemoryBoundBench::rope(Bytes traffic) {
    const std::int64_t rows = rows_for(traffic, 2 * 2 * (kQueryColumns + kKeyColumns));
    const Measurement forward = timed([&] {
        rotate(stream(), kRotary, kPosition, RotationSense::kForward, pool_.bf16(rows, kQueryColumns));
        rotate(stream(), kRotary, kPosition, RotationSense::kForward,
               pool_.bf16(rows, 2 * kKeyColumns).column_range(0, kKeyColumns));
    });
    const Measurement backward = timed([&] {
        const Fp32Matrix sums = pool_.fp32(rows, 2 * kKeyColumns);
        const Bf16Matrix out = pool_.bf16(rows, 2 * kKeyColumns);
        for (const std::int64_t turned : {kKeyColumns, std::int64_t{0}}) {  // K, then V
            const std::int64_t first = kKeyColumns - turned;
            rotate_and_round(stream(), kRotary, kPosition, RotationSense::kBackward, turned,
                             sums.column_range(first, kKeyColumns), pool_.bf16(rows, kKeyColumns),
                             out.column_range(first, kKeyColumns));
        }
    });
    return {kRope, forward + backward, Bytes{2 * rows * (kQueryColumns + kKeyColumns) * 2 * 2}, 2};
}

PointwiseFigure MemoryBoundBench::swiglu(Bytes traffic) {
    const std::int64_t rows = rows_for(traffic, 4 * 2 * kFfn);
    const auto gate = [](Bf16Matrix both) { return both.column_range(0, kFfn); };
    const auto up = [](Bf16Matrix both) { return both.column_range(kFfn, kFfn); };
    const Measurement forward = timed([&] {
        const Bf16Matrix first = pool_.bf16(rows, 2 * kFfn);
        swiglu_forward(stream(), gate(first), up(first), pool_.bf16(rows, kFfn));
    });
    const Measurement backward = timed([&] {
        const Bf16Matrix first = pool_.bf16(rows, 2 * kFfn), dfirst = pool_.bf16(rows, 2 * kFfn);
        swiglu_backward(stream(), pool_.bf16(rows, kFfn), gate(first), up(first), gate(dfirst), up(dfirst), {});
    });
    return {kSwiglu, forward + backward, Bytes{rows * kFfn * 2 * (3 + 5)}, 2};
}

// The mean of both forms.
PointwiseFigure MemoryBoundBench::gelu(Bytes traffic) {
    const std::int64_t rows = rows_for(traffic, 5 * kFfn);
    const auto x = [&] { return pool_.bf16(rows, kFfn); };
    Measurement all;
    for (const GeluForm form : {GeluForm::kTanh, GeluForm::kErf})
        all = all + timed([&] { gelu_forward(stream(), form, x(), x()); }) +
              timed([&] { gelu_backward(stream(), form, x(), x(), x(), {}); });
    return {kGelu, all * 0.5, Bytes{rows * kFfn * 2 * (2 + 3)}, 2};
}

PointwiseFigure MemoryBoundBench::residual(Bytes traffic) {
    const std::int64_t rows = rows_for(traffic, 3 * 2 * kHidden);
    const auto x = [&] { return pool_.bf16(rows, kHidden); };
    return {kResidual, timed([&] { residual_add(stream(), x(), x(), x()); }), Bytes{rows * kHidden * 2 * 3}, 1};
}

PointwiseFigure MemoryBoundBench::embedding(Bytes traffic) {
    const std::int64_t rows = rows_for(traffic, 7 * kHidden);
    const std::vector<TokenId> ids = zipf_tokens(rows, kVocabulary);
    const VocabularyShard shard{kVocabulary, 0, kVocabulary};
    const SortedTokens sorted = sort_tokens(ids, shard);
    const Uploaded<TokenId> device_ids(ids);
    const Uploaded<std::int32_t> token(sorted.token), row(sorted.row), begin(sorted.begin);
    const DeviceSortedTokens on_device{token.data(), row.data(), begin.data(), std::ssize(sorted.row)};
    const Measurement forward = timed([&] {
        token_embedding_forward(stream(), device_ids.data(), shard, pool_.bf16(kVocabulary, kHidden),
                                pool_.bf16(rows, kHidden));
    });
    const Measurement backward = timed([&] {
        token_embedding_backward(stream(), on_device, pool_.bf16(rows, kHidden), pool_.fp32(kVocabulary, kHidden));
    });
    return {kEmbedding, forward + backward, Bytes{rows * kHidden * (4 + 10)}, 2};
}

PointwiseFigure MemoryBoundBench::loss(Bytes traffic) {
    const std::int64_t tokens = rows_for(traffic, 12 * kVocabulary);
    const VocabularyShard shard{kVocabulary, 0, kVocabulary};
    const Uploaded<TokenId> targets(zipf_tokens(tokens, kVocabulary));
    const Uploaded<LossPartial> partials(std::vector<LossPartial>(static_cast<std::size_t>(tokens)));
    const Uploaded<float> log_sum_exp(std::vector<float>(static_cast<std::size_t>(tokens)));
    const Uploaded<double> sum(std::vector<double>(1));
    const Measurement time = timed([&] {
        const Fp32Matrix logits = pool_.fp32(tokens, kVocabulary);
        loss_partials(stream(), logits, targets.data(), shard, partials.data());
        combine_loss_partials(stream(), partials.data(), 1, tokens, log_sum_exp.data(), sum.data());
        logits_gradient(stream(), log_sum_exp.data(), targets.data(), shard, Tokens{tokens}, logits);
    });
    return {kCrossEntropy, time, Bytes{tokens * kVocabulary * 12}, 1};
}

PointwiseFigure MemoryBoundBench::adamw(Bytes traffic) {
    const std::int64_t count = rows_for(traffic, 30);
    const Uploaded<double> squares(std::vector<double>{4});
    MeasurementMemory states(Bytes{3 * 4 * count});  // its own: second moments are not below 0
    states.fill_with_zeros();
    auto* const state = reinterpret_cast<float*>(states.data());
    const Measurement time = timed([&] {
        cuda::adamw(
            stream(), {1e-4F}, 1.0, squares.data(),
            {pool_.take<float>(count), state, state + count, state + 2 * count, pool_.take<Bf16>(count), count});
    });
    return {kAdamw, time, Bytes{30 * count}, 1};
}

PointwiseFigure MemoryBoundBench::gradient_norm(Bytes traffic) {
    const std::int64_t count = rows_for(traffic, 4);
    const Uploaded<double> squares(std::vector<double>{0});
    const Measurement time =
        timed([&] { sum_of_squares(stream(), pool_.take<float>(count), count, squares.data(), scratch()); });
    return {kOther, time, Bytes{4 * count}, 1};
}

PointwiseFigure MemoryBoundBench::time(const MemoryBoundCall& c) {
    switch (c.kernel) {
        case kLayerNorm:
        case kRmsNorm:
            return norm(c.kernel == kLayerNorm, c.traffic);
        case kRope:
            return rope(c.traffic);
        case kSwiglu:
            return swiglu(c.traffic);
        case kGelu:
            return gelu(c.traffic);
        case kResidual:
            return residual(c.traffic);
        case kEmbedding:
            return embedding(c.traffic);
        case kCrossEntropy:
            return loss(c.traffic);
        case kAdamw:
            return adamw(c.traffic);
        case kOther:
            return gradient_norm(c.traffic);
        case kNorm:
        case kActivation:
        case kAccumulate:
            break;
    }
    SLUICE_CHECK(false, "the CUDA backend has a kernel of its own for it");
}

}  // namespace sluice::cuda
