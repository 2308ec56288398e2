#include "runtime/cuda/library_rates.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/check.h"

namespace sluice::cuda {
namespace {

template <class Element>
class Memory {
public:
    explicit Memory(std::int64_t count) : memory_(Bytes{count * static_cast<std::int64_t>(sizeof(Element))}) {}
    Element* data() const { return reinterpret_cast<Element*>(memory_.data()); }
    std::size_t bytes() const { return static_cast<std::size_t>(memory_.size().value); }

protected:
    MeasurementMemory memory_;
};

struct RandomBf16 : Memory<Bf16> {
    explicit RandomBf16(std::int64_t count) : Memory(count) { memory_.fill_at_random(); }
};
struct Zeros : Memory<float> {
    explicit Zeros(std::int64_t count) : Memory(count) { memory_.fill_with_zeros(); }
};

template <class Result>
ProductRate product(const GemmShape& s, Seconds at_least, Result* c) {
    const bool ta = s.a == Transpose::kYes, tb = s.b == Transpose::kYes;
    const std::int64_t a_rows = ta ? s.k : s.m, b_rows = tb ? s.n : s.k;
    Gemms gemms;
    {
        const Memory<std::byte> scratch(gemm_scratch_bytes(s).value);
        gemms.prepare(s, nullptr, {scratch.data(), scratch.bytes()});
    }
    const RandomBf16 a(a_rows * s.a_stride), b(b_rows * s.b_stride);
    const ConstBf16Matrix av(a.data(), a_rows, ta ? s.m : s.k, s.a_stride);
    const ConstBf16Matrix bv(b.data(), b_rows, tb ? s.k : s.n, s.b_stride);
    const BasicMatrixView<Result> cv(c, s.m, s.n, s.c_stride);
    const SustainedCall call = sustained(at_least, [&] { gemms.run(nullptr, s.a, av, s.b, bv, cv, s.store); });
    return {call, gemms.choices().front()};
}

}  // namespace

ProductRate sustained_product(const GemmShape& s, Seconds at_least) {
    if (s.result == ResultType::kFp32) {
        const Zeros c(s.m * s.c_stride);
        return product(s, at_least, c.data());
    }
    const RandomBf16 c(s.m * s.c_stride);
    return product(s, at_least, c.data());
}

AttentionRate sustained_attention(const AttentionShape& s, Seconds at_least) {
    const std::int64_t queries = s.length.value, keys = s.begin.value + queries;
    const std::int64_t width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
    AttentionPlans plans;
    plans.prepare(s, {width, 2 * kv_width, width});
    AttentionRate rate{{}, {}, plans.forward_workspace(s), plans.backward_workspace(s)};

    const RandomBf16 query(queries * width), kv(keys * 2 * kv_width), dout(queries * width);
    const Memory<Bf16> out(queries * width), dquery(queries * width);
    const Memory<float> log_sum_exp(queries * s.heads);
    const Zeros dkv(keys * 2 * kv_width);
    const Memory<std::byte> workspace(std::max(rate.forward_workspace, rate.backward_workspace).value);
    const auto keys_of = [&](auto* data) { return BasicMatrixView(data, keys, kv_width, 2 * kv_width); };
    const AttentionOperands in{{query.data(), queries, width}, keys_of(kv.data()), keys_of(kv.data() + kv_width)};
    const AttentionSaved saved{{out.data(), queries, width}, log_sum_exp.data()};
    const AttentionGradients gradients{{dquery.data(), queries, width},
                                       keys_of(dkv.data()),
                                       keys_of(dkv.data() + kv_width),
                                       false,
                                       {},
                                       false};  // as the backend calls it
    rate.forward = sustained(at_least, [&] { plans.forward(nullptr, s, in, saved, workspace.data()); });
    rate.backward = sustained(at_least, [&] {
        plans.backward(nullptr, s, in, {saved.out, saved.log_sum_exp}, {dout.data(), queries, width}, gradients,
                       workspace.data());
    });
    return rate;
}

}  // namespace sluice::cuda
