#include <cmath>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/reduce.cuh"
#include "runtime/cuda/vector.cuh"
#include "runtime/cuda/vocabulary_loss.h"

namespace sluice::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr int kUnroll = 4;

__device__ float minus_infinity() { return -__int_as_float(0x7f800000); }

// Maximum and sum of exp(value - maximum) so far. The fast exponential errs by 2^-22 of 1 beside the maximum, and
// further down by no more of the sum.
struct OnlineSum {
    float maximum = minus_infinity(), sum = 0;

    __device__ void rescale(float to) {
        if (to == maximum) return;  // also minus infinity, whose difference is NaN
        sum *= __expf(maximum - to);
        maximum = to;
    }
    template <int kCount>
    __device__ void add(const float (&values)[kCount]) {
        float top = maximum;
#pragma unroll
        for (int i = 0; i < kCount; ++i) top = fmaxf(top, values[i]);
        rescale(top);
        const float base = top == minus_infinity() ? 0.0F : top;
#pragma unroll
        for (int i = 0; i < kCount; ++i) sum += __expf(values[i] - base);
    }
};

// A block per token. kWidth 4: rows begin at 16 bytes, and the last elements go one by one.
template <int kWidth>
__global__ void __launch_bounds__(kThreads) loss_partials_kernel(const ConstFp32Matrix logits, const TokenId* targets,
                                                                 const VocabularyShard shard, LossPartial* partials) {
    __shared__ float slots[2][kMaxWarps];
    const std::int64_t token = blockIdx.x;
    const float* const row = logits.row(token);
    const std::int64_t whole = shard.count / kWidth;
    const TokenId target = targets[token];
    const float at_target = threadIdx.x == 0 && shard.holds(target) ? row[target - shard.first] : 0.0F;
    OnlineSum own;
    for (std::int64_t first = threadIdx.x; first < whole; first += kThreads * kUnroll) {
        float values[kUnroll * kWidth];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t place = first + u * static_cast<std::int64_t>(kThreads);
            Vector<float, kWidth> v{};
            if (place < whole) v = load<kWidth>(row + place * kWidth);
#pragma unroll
            for (int i = 0; i < kWidth; ++i) values[u * kWidth + i] = place < whole ? v[i] : minus_infinity();
        }
        own.add(values);
    }
    const std::int64_t rest = whole * kWidth + threadIdx.x;
    if (rest < shard.count) own.add({row[rest]});

    const float maximum = row_maximum(own.maximum, slots[0]);
    own.rescale(maximum);
    const float sum = row_sum(own.sum, slots[1]);
    if (threadIdx.x == 0) partials[token] = {maximum, sum, at_target};
}

__global__ void __launch_bounds__(256) log_sum_exp_kernel(const LossPartial* partials, const std::int64_t shards,
                                                          const std::int64_t tokens, float* log_sum_exp) {
    const std::int64_t token = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (token >= tokens) return;
    float maximum = minus_infinity();
    for (std::int64_t s = 0; s < shards; ++s) maximum = fmaxf(maximum, partials[s * tokens + token].maximum);
    double sum = 0;
    for (std::int64_t s = 0; s < shards; ++s) {
        const LossPartial p = partials[s * tokens + token];
        sum += static_cast<double>(p.sum) * exp(static_cast<double>(p.maximum) - static_cast<double>(maximum));
    }
    log_sum_exp[token] = static_cast<float>(static_cast<double>(maximum) + log(sum));
}

constexpr unsigned kLossThreads = 1024;

// One block, so that the order of the sum is that of its threads: 16 bytes a token, far less than the logits had.
__global__ void __launch_bounds__(kLossThreads)
    loss_sum_kernel(const LossPartial* partials, const std::int64_t shards, const std::int64_t tokens,
                    const float* log_sum_exp, double* loss_sum) {
    __shared__ double slots[kMaxWarps];
    double losses = 0;
#pragma unroll 4
    for (std::int64_t token = threadIdx.x; token < tokens; token += kLossThreads) {
        double target = 0;
        for (std::int64_t s = 0; s < shards; ++s) target += static_cast<double>(partials[s * tokens + token].target);
        losses += static_cast<double>(log_sum_exp[token]) - target;
    }
    losses = row_sum(losses, slots);
    if (threadIdx.x == 0) *loss_sum += losses;
}

// A block per token, in place: element j leaves bytes [4j, 4j + 4) of the row and comes to bytes [2j, 2j + 2). In each
// turn the block reads the elements [first, end) into registers, waits, and writes bytes [2 first, 2 end) of the row.
// These held elements below `end` alone, all read by then: in this turn or, below `first`, in earlier ones. Elements
// still to be read begin at byte 4 end and are never touched.
template <int kWidth>
__global__ void __launch_bounds__(kThreads)
    logits_gradient_kernel(const Fp32Matrix logits, const float* log_sum_exp, const TokenId* targets,
                           const VocabularyShard shard, const float share) {
    const std::int64_t token = blockIdx.x;
    const float* const row = logits.row(token);
    Bf16* const out = reinterpret_cast<Bf16*>(logits.row(token));
    const float total = log_sum_exp[token];
    const std::int64_t target = targets[token] - shard.first;  // outside [0, count): another shard's
    const auto gradient = [=](float logit, std::int64_t place) {
        return (__expf(logit - total) - (place == target ? 1.0F : 0.0F)) * share;
    };
    const std::int64_t whole = shard.count / kWidth;
    for (std::int64_t turn = 0; turn < whole; turn += kThreads * kUnroll) {  // the same for all threads
        Vector<Bf16, kWidth> results[kUnroll];
        Vector<float, kWidth> read[kUnroll];
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t place = turn + threadIdx.x + u * static_cast<std::int64_t>(kThreads);
            if (place < whole) read[u] = load<kWidth>(row + place * kWidth);
        }
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t place = turn + threadIdx.x + u * static_cast<std::int64_t>(kThreads);
            float values[kWidth];
#pragma unroll
            for (int i = 0; i < kWidth; ++i) values[i] = gradient(read[u][i], place * kWidth + i);
            results[u] = rounded<Bf16>(values);
        }
        __syncthreads();
#pragma unroll
        for (int u = 0; u < kUnroll; ++u) {
            const std::int64_t place = turn + threadIdx.x + u * static_cast<std::int64_t>(kThreads);
            if (place < whole) store(out + place * kWidth, results[u]);
        }
    }
    // fewer than kWidth elements are left, for as many threads of one warp
    const std::int64_t rest = whole * kWidth + threadIdx.x;
    if (threadIdx.x >= kWarp) return;
    const float last = rest < shard.count ? gradient(row[rest], rest) : 0.0F;
    __syncwarp();
    if (rest < shard.count) store(out + rest, rounded<Bf16>({last}));
}

bool rows_begin_aligned(ConstFp32Matrix m) {
    return in_whole_vectors<4>(m.data, 0) && (m.stride % 4 == 0 || m.rows == 1);
}

void check_shapes(ConstFp32Matrix logits, VocabularyShard shard) {
    SLUICE_CHECK(logits.columns == shard.count, "logits have a column for each id of the shard");
}

}  // namespace

void loss_partials(Stream stream, ConstFp32Matrix logits, const TokenId* targets, VocabularyShard shard,
                   LossPartial* partials) {
    check_shapes(logits, shard);
    if (logits.rows == 0) return;
    const auto blocks = static_cast<unsigned>(logits.rows);
    if (rows_begin_aligned(logits))
        loss_partials_kernel<4><<<blocks, kThreads, 0, stream>>>(logits, targets, shard, partials);
    else
        loss_partials_kernel<1><<<blocks, kThreads, 0, stream>>>(logits, targets, shard, partials);
    check_launch("loss_partials");
}

void combine_loss_partials(Stream stream, const LossPartial* partials, std::int64_t shards, std::int64_t tokens,
                           float* log_sum_exp, double* loss_sum) {
    if (tokens == 0) return;
    constexpr unsigned kTokens = 256;
    const auto blocks = static_cast<unsigned>(ceil_div(tokens, kTokens));
    log_sum_exp_kernel<<<blocks, kTokens, 0, stream>>>(partials, shards, tokens, log_sum_exp);
    check_launch("combine_loss_partials");
    loss_sum_kernel<<<1, kLossThreads, 0, stream>>>(partials, shards, tokens, log_sum_exp, loss_sum);
    check_launch("combine_loss_partials");
}

Bf16Matrix logits_gradient(Stream stream, const float* log_sum_exp, const TokenId* targets, VocabularyShard shard,
                           Tokens total_tokens, Fp32Matrix logits) {
    check_shapes(logits, shard);
    SLUICE_CHECK(total_tokens.value > 0, "a loss has tokens");
    const Bf16Matrix result{reinterpret_cast<Bf16*>(logits.data), logits.rows, logits.columns, 2 * logits.stride};
    if (logits.rows == 0 || shard.count == 0) return result;
    const auto blocks = static_cast<unsigned>(logits.rows);
    const float share = 1.0F / static_cast<float>(total_tokens.value);
    if (rows_begin_aligned(logits))
        logits_gradient_kernel<4><<<blocks, kThreads, 0, stream>>>(logits, log_sum_exp, targets, shard, share);
    else
        logits_gradient_kernel<1><<<blocks, kThreads, 0, stream>>>(logits, log_sum_exp, targets, shard, share);
    check_launch("logits_gradient");
    return result;
}

}  // namespace sluice::cuda
