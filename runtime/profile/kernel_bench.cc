#include "runtime/profile/kernel_bench.h"

#include <span>

#include "base/error.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/gemm.h"

namespace sluice {
namespace {

// Numbers in [-1, 1) without a pattern that a kernel could profit from, none of them subnormal.
float number(std::size_t i) {
    const auto hash = static_cast<std::uint32_t>(i * 2654435761U);
    return static_cast<float>(hash >> 8) * (2.0F / 16777216.0F) - 1.0F;
}

std::int64_t to_floats(Bytes bytes) { return (bytes.value + 3) / 4; }

}  // namespace

float* KernelBench::floats(std::size_t slot, std::int64_t count) {
    if (slots_.size() <= slot) slots_.resize(slot + 1);
    std::vector<float>& values = slots_[slot];
    const auto wanted = static_cast<std::size_t>(count);
    for (std::size_t i = values.size(); i < wanted; ++i) values.push_back(number(i + 17 * slot));
    return values.data();
}

Measurement KernelBench::time(const Gemm& g) {
    using enum Transpose;
    const float *a = floats(0, g.m * g.k), *b = floats(1, g.k * g.n);
    const MatrixView c(floats(2, g.m * g.n), g.m, g.n);
    const Measurement forward = measure([&] { gemm(kNo, {a, g.m, g.k}, kYes, {b, g.n, g.k}, c); }, effort_);
    if (forward.median > effort_.longest) return forward;
    const Measurement data = measure([&] { gemm(kNo, {a, g.m, g.k}, kNo, {b, g.k, g.n}, c); }, effort_);
    // added to: scaled so that the sums of many calls stay finite
    const Measurement weight = measure(
        [&] {
            gemm(kYes, {a, g.k, g.m}, kNo, {b, g.k, g.n}, c, Store::kAdd, 1e-6F);
        },
        effort_);
    return (forward + data + weight) * (1.0 / 3);
}

Measurement KernelBench::time(const Attention& a) {
    SLUICE_CHECK(a.causal, "attention on the CPU is causal");
    const std::int64_t width = a.heads * a.head_dim, kv_width = a.kv_heads * a.head_dim;
    const AttentionShape shape{Tokens{a.keys - a.queries}, Tokens{a.queries}, a.heads, a.kv_heads, a.head_dim};
    const AttentionOperands in{{floats(0, a.queries * width), a.queries, width},
                               {floats(1, a.keys * kv_width), a.keys, kv_width},
                               {floats(2, a.keys * kv_width), a.keys, kv_width}};
    const MatrixView out(floats(3, a.queries * width), a.queries, width);
    const std::span lse(floats(4, a.heads * a.queries), static_cast<std::size_t>(a.heads * a.queries));
    const auto workspace = [&](Bytes bytes) {
        return std::span(floats(5, to_floats(bytes)), static_cast<std::size_t>(to_floats(bytes)));
    };
    const auto forward = [&] {
        attention_forward(shape, in, {out, lse}, workspace(attention_forward_workspace(shape)));
    };
    if (a.pass == Pass::kForward) return measure(forward, effort_);
    forward();  // leaves what backward needs
    const ConstMatrixView dout(floats(6, a.queries * width), a.queries, width);
    const AttentionGradients gradients{{floats(7, a.queries * width), a.queries, width},
                                       {floats(8, a.keys * kv_width), a.keys, kv_width},
                                       {floats(9, a.keys * kv_width), a.keys, kv_width}};
    return measure(
        [&] {
            attention_backward(shape, in, {out, lse}, dout, gradients, workspace(attention_backward_workspace(shape)));
        },
        effort_);
}

}  // namespace sluice
