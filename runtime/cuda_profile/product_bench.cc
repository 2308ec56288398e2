#include "runtime/cuda_profile/product_bench.h"

#include <algorithm>

namespace sluice::cuda {
namespace {

using enum Transpose;

struct Model {
    std::int64_t hidden;
    std::vector<std::int64_t> query_key_value;  // features of the query, of keys and values together
    std::int64_t mlp_in, mlp_out;               // features that the first product makes, that the second takes
};

// Heads of 128: 16 and 24 with 8 of keys and values, 32 with as many. The third has no gate.
std::vector<Model> models(bool quick) {
    if (quick) return {{3072, {3072, 2048}, 16384, 8192}};
    return {{2048, {2048, 2048}, 16384, 8192}, {3072, {3072, 2048}, 16384, 8192}, {4096, {4096, 8192}, 16384, 16384}};
}

constexpr std::int64_t kVocabulary = 32000, kLogitsChunk = 8192;

Bytes bytes_of_a(const GemmShape& s) { return Bytes{2 * (s.a == kYes ? s.k : s.m) * s.a_stride}; }
Bytes bytes_of_b(const GemmShape& s) { return Bytes{2 * (s.b == kYes ? s.n : s.k) * s.b_stride}; }
Bytes bytes_of_c(const GemmShape& s) { return Bytes{(s.result == ResultType::kFp32 ? 4 : 2) * s.m * s.c_stride}; }
Bytes aligned(Bytes b) { return round_up(b, 256_B); }

template <class Size>
Bytes largest(const std::vector<LayerProducts>& all, Size size) {
    Bytes most{256};
    for (const LayerProducts& products : all)
        for (const auto* shapes : {&products.forward, &products.data, &products.weight})
            for (const GemmShape& s : *shapes) most = std::max(most, size(s));
    return most;
}

template <class Result>
void put(Gemms& gemms, Stream stream, const GemmShape& s, std::byte* operands, std::byte* result) {
    const bool ta = s.a == kYes, tb = s.b == kYes;
    const ConstBf16Matrix a(reinterpret_cast<const Bf16*>(operands), ta ? s.k : s.m, ta ? s.m : s.k, s.a_stride);
    const ConstBf16Matrix b(reinterpret_cast<const Bf16*>(operands + aligned(bytes_of_a(s)).value), tb ? s.n : s.k,
                            tb ? s.k : s.n, s.b_stride);
    const BasicMatrixView<Result> c(reinterpret_cast<Result*>(result), s.m, s.n, s.c_stride);
    gemms.run(stream, s.a, a, s.b, b, c, s.store);
}

}  // namespace

LayerProducts layer_products(std::int64_t tokens, std::int64_t in, const std::vector<std::int64_t>& outs) {
    LayerProducts p;
    p.shape = {tokens, 0, in};
    for (const std::int64_t out : outs) {
        p.shape.n += out;
        p.forward.push_back({kNo, kYes, tokens, out, in, in, in, out, ResultType::kBf16, Store::kOverwrite});
    }
    const std::int64_t all = p.shape.n;
    p.data = {{kNo, kNo, tokens, in, all, all, in, in, ResultType::kBf16, Store::kOverwrite}};
    p.weight = {{kYes, kNo, all, in, tokens, all, in, in, ResultType::kFp32, Store::kAdd}};
    return p;
}

LayerProducts logits_products(std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary) {
    const std::int64_t gradient_stride = 2 * vocabulary;
    return {
        {tokens, vocabulary, hidden},
        {{kNo, kYes, tokens, vocabulary, hidden, hidden, hidden, vocabulary, ResultType::kFp32, Store::kOverwrite}},
        {{kNo, kNo, tokens, hidden, vocabulary, gradient_stride, hidden, hidden, ResultType::kBf16, Store::kOverwrite}},
        {{kYes, kNo, vocabulary, hidden, tokens, gradient_stride, hidden, hidden, ResultType::kFp32, Store::kAdd}}};
}

std::vector<LayerProducts> profiled_products(bool quick) {
    std::vector<LayerProducts> all;
    const std::vector<std::int64_t> lengths =
        quick ? std::vector<std::int64_t>{2048, 8192} : std::vector<std::int64_t>{1024, 2048, 4096, 8192, 16384, 32768};
    for (const Model& m : models(quick)) {
        for (const std::int64_t tokens : lengths) {
            all.push_back(layer_products(tokens, m.hidden, m.query_key_value));
            all.push_back(layer_products(tokens, m.hidden, {m.hidden}));
            all.push_back(layer_products(tokens, m.hidden, {m.mlp_in}));
            all.push_back(layer_products(tokens, m.mlp_out, {m.hidden}));
        }
        all.push_back(logits_products(kLogitsChunk, m.hidden, kVocabulary));
    }
    if (quick) return all;
    for (const std::int64_t tokens : {128, 256, 512})
        for (const std::int64_t hidden : {2048, 3072}) all.push_back(layer_products(tokens, hidden, {hidden}));
    for (const std::int64_t side : {512, 16384}) all.push_back(layer_products(side, side, {side}));
    return all;
}

std::vector<LayerProducts> other_products(bool quick) {
    std::vector<LayerProducts> all;
    for (const std::int64_t tokens : {3072, 6144, 12288}) {
        all.push_back(layer_products(tokens, 5120, {5120}));
        if (quick) continue;
        all.push_back(layer_products(tokens, 5120, {13824}));
        all.push_back(layer_products(tokens, 10240, {2560}));
    }
    return all;
}

ProductBench::ProductBench(Gemms& gemms, GpuTimer& timer, Seconds at_least, const std::vector<LayerProducts>& all)
    : gemms_(gemms),
      timer_(timer),
      at_least_(at_least),
      operands_(largest(all, [](const GemmShape& s) { return aligned(bytes_of_a(s)) + bytes_of_b(s); })),
      result_(largest(all, bytes_of_c)),
      scratch_(largest(all, gemm_scratch_bytes)) {
    operands_.fill_at_random();
    result_.fill_at_random();
}

void ProductBench::prepare(const GemmShape& s) {
    gemms_.prepare(s, timer_.stream(), {scratch_.data(), static_cast<std::size_t>(scratch_.size().value)});
}

void ProductBench::run(const GemmShape& s) {
    if (s.result == ResultType::kFp32)
        put<float>(gemms_, timer_.stream(), s, operands_.data(), result_.data());
    else
        put<Bf16>(gemms_, timer_.stream(), s, operands_.data(), result_.data());
}

Measurement ProductBench::time(const GemmShape& s) {
    const auto known = measured_.find(s);
    if (known != measured_.end()) return known->second;
    prepare(s);
    return measured_.emplace(s, timer_.time([&] { run(s); }, at_least_)).first->second;
}

Measurement ProductBench::time(const std::vector<GemmShape>& shapes) {
    Measurement sum;
    for (const GemmShape& s : shapes) sum = sum + time(s);
    return sum;
}

ProductFigure ProductBench::time(const LayerProducts& p) {
    return {p.shape, time(p.forward), time(p.data), time(p.weight)};
}

}  // namespace sluice::cuda
