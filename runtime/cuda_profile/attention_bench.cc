#include "runtime/cuda_profile/attention_bench.h"

#include <algorithm>

namespace sluice::cuda {
namespace {

constexpr std::int64_t kHeads = 24, kKvHeads = 8, kHeadDim = 128;
constexpr std::int64_t kWidth = kHeads * kHeadDim, kKvWidth = kKvHeads * kHeadDim;
constexpr RotaryShape kRotary{kHeadDim, kHeadDim, 5e5};

AttentionShape shape_of(const Attention& a) {
    return {Tokens{a.keys - a.queries}, Tokens{a.queries}, a.heads, a.kv_heads, a.head_dim};
}

// K or V of a buffer that has both side by side.
template <class Value>
BasicMatrixView<Value> kv_half(Value* data, const Attention& a, std::int64_t begin) {
    return {data + begin, a.keys, kKvWidth, 2 * kKvWidth};
}

}  // namespace

Attention profiled_attention_shape(std::int64_t queries, std::int64_t keys) {
    return {Pass::kForward, true, queries, keys, kHeads, kKvHeads, kHeadDim};
}

std::vector<Attention> profiled_attention(bool quick) {
    const std::vector<std::int64_t> queries =
        quick ? std::vector<std::int64_t>{2048, 8192} : std::vector<std::int64_t>{2048, 4096, 8192, 16384, 32768};
    const std::vector<std::int64_t> keys =
        quick ? std::vector<std::int64_t>{2048, 8192, 32768}
              : std::vector<std::int64_t>{2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144};
    std::vector<Attention> all;
    for (const std::int64_t q : queries)
        for (const std::int64_t k : keys)
            if (k >= q) all.push_back(profiled_attention_shape(q, k));
    return all;
}

std::vector<Attention> other_attention(bool quick) {
    const auto& attention = profiled_attention_shape;
    if (quick) return {attention(4096, 12288)};
    return {attention(3072, 3072),   attention(3072, 49152),  attention(6144, 12288),  attention(6144, 98304),
            attention(12288, 24576), attention(12288, 98304), attention(24576, 24576), attention(24576, 196608)};
}

AttentionBench::AttentionBench(AttentionPlans& plans, GpuTimer& timer, Seconds at_least,
                               const std::vector<Attention>& all, const std::function<void(std::size_t)>& built)
    : plans_(plans), timer_(timer), at_least_(at_least) {
    std::int64_t queries = 0, keys = 0;
    Bytes workspace = 256_B;
    std::size_t count = 0;
    for (const Attention& a : all) {
        built(count++);
        const AttentionShape s = shape_of(a);
        plans_.prepare(s, {kWidth, 2 * kKvWidth, kWidth});
        queries = std::max(queries, a.queries), keys = std::max(keys, a.keys);
        workspace = std::max({workspace, plans_.forward_workspace(s), plans_.backward_workspace(s)});
    }
    const auto take = [&](std::int64_t bytes) -> MeasurementMemory& {
        return *memory_.emplace_back(std::make_unique<MeasurementMemory>(Bytes{bytes}));
    };
    const auto random = [&](std::int64_t values) {
        const MeasurementMemory& memory = take(2 * values);
        memory.fill_at_random();
        return reinterpret_cast<Bf16*>(memory.data());
    };
    query_ = random(queries * kWidth), kv_ = random(keys * 2 * kKvWidth), dout_ = random(queries * kWidth);
    out_ = random(queries * kWidth), dquery_ = random(queries * kWidth);
    log_sum_exp_ = reinterpret_cast<float*>(take(4 * queries * kHeads).data());
    const MeasurementMemory& sums = take(4 * keys * 2 * kKvWidth);
    sums.fill_with_zeros();
    dkv_ = reinterpret_cast<float*>(sums.data());
    workspace_ = take(workspace.value).data();
}

AttentionOperands AttentionBench::operands(const Attention& a) const {
    return {{query_, a.queries, kWidth}, kv_half(kv_, a, 0), kv_half(kv_, a, kKvWidth)};
}

void AttentionBench::forward(const Attention& a) {
    plans_.forward(timer_.stream(), shape_of(a), operands(a), {{out_, a.queries, kWidth}, log_sum_exp_}, workspace_);
}

void AttentionBench::backward(const Attention& a) {
    const AttentionGradients gradients{
        {dquery_, a.queries, kWidth}, kv_half(dkv_, a, 0), kv_half(dkv_, a, kKvWidth), false, kRotary, false};
    plans_.backward(timer_.stream(), shape_of(a), operands(a), {{out_, a.queries, kWidth}, log_sum_exp_},
                    {dout_, a.queries, kWidth}, gradients, workspace_);
}

AttentionFigure AttentionBench::time(const Attention& a) {
    const AttentionShape s = shape_of(a);
    return {a, timer_.time([&] { forward(a); }, at_least_), timer_.time([&] { backward(a); }, at_least_),
            plans_.forward_workspace(s), plans_.backward_workspace(s)};
}

}  // namespace sluice::cuda
