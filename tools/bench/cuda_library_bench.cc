// Rates of the products and of the attention of three models on the GPU, each shape again and again. One line of JSON
// per figure as it is measured, then a table.
//
//   cuda_library_bench [SECONDS_EACH] [products | attention]
#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/gpu_description.h"
#include "runtime/cuda/library_rates.h"

namespace sluice {
namespace {

struct Model {
    std::string_view name;
    std::int64_t hidden, heads, kv_heads, ffn, vocabulary;
};
constexpr Model kModels[] = {
    {"1b", 2048, 16, 8, 8192, 32000}, {"3b", 3072, 24, 8, 8192, 32000}, {"7b4", 4096, 32, 32, 16384, 32000}};
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kTokens[] = {8192, 16384};
constexpr std::int64_t kLogitsChunk = 8192;

// Y = X W^T with W (out, in).
struct Layer {
    std::string_view name;
    std::int64_t in, out;
};
std::vector<Layer> layers(const Model& m) {
    return {{"query", m.hidden, m.heads * kHeadDim},
            {"key, value", m.hidden, 2 * m.kv_heads * kHeadDim},
            {"projection", m.heads * kHeadDim, m.hidden},
            {"mlp in", m.hidden, m.ffn},
            {"mlp out", m.ffn, m.hidden}};
}

using cuda::GemmShape;
using cuda::ResultType;

GemmShape forward(std::int64_t tokens, const Layer& l, ResultType result = ResultType::kBf16) {
    return {Transpose::kNo, Transpose::kYes, tokens, l.out, l.in, l.in, l.in, l.out, result, Store::kOverwrite};
}
GemmShape data_gradient(std::int64_t tokens, const Layer& l) {
    return {Transpose::kNo, Transpose::kNo,    tokens,           l.in, l.out, l.out, l.in,
            l.in,           ResultType::kBf16, Store::kOverwrite};
}
GemmShape weight_gradient(std::int64_t tokens, const Layer& l) {
    return {Transpose::kYes, Transpose::kNo, l.out, l.in, tokens, l.out, l.in, l.in, ResultType::kFp32, Store::kAdd};
}

struct Row {
    std::string what;
    double teraflops = 0;
    double milliseconds = 0;
};

class Report {
public:
    explicit Report(Seconds each) : each_(each) {}

    void product(const Model& m, std::string_view layer, std::string_view role, const GemmShape& s) {
        const std::string what = fmt::format("{} {} {}: m {}, n {}, k {}{}", m.name, layer, role, s.m, s.n, s.k,
                                             s.store == Store::kAdd ? ", add" : "");
        auto found = measured_.find(s);
        if (found == measured_.end()) {
            const auto rate = guarded(what, [&] { return cuda::sustained_product(s, each_); });
            if (!rate) return;
            found = measured_.emplace(s, *rate).first;
        }
        const cuda::ProductRate& r = found->second;
        const double flops = 2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
        const double rate = flops / r.call.each.value / 1e12;
        fmt::print(R"({{"kind": "product", "model": "{}", "layer": "{}", "role": "{}", "m": {}, "n": {}, "k": {}, )"
                   R"("seconds": {:.4g}, "calls": {}, "tflops": {:.1f}, "algorithm": "{}"}})"
                   "\n",
                   m.name, layer, role, s.m, s.n, s.k, r.call.each.value, r.call.calls, rate, r.choice.algorithm);
        rows_.push_back({what, rate, 1e3 * r.call.each.value});
    }

    void attention(std::int64_t heads, std::int64_t kv_heads, std::int64_t queries, std::int64_t keys) {
        const AttentionShape s{Tokens{keys - queries}, Tokens{queries}, heads, kv_heads, kHeadDim};
        const std::string what =
            fmt::format("attention {} queries, {} keys, {}/{} heads", queries, keys, heads, kv_heads);
        const auto rate = guarded(what, [&] { return cuda::sustained_attention(s, each_); });
        if (!rate) return;
        // what is not masked: query i sees keys - queries + i + 1 keys
        const double seen = static_cast<double>(queries) *
                            (static_cast<double>(keys - queries) + 0.5 * static_cast<double>(queries + 1));
        const double flops = 4 * static_cast<double>(heads * kHeadDim) * seen;
        attention_pass(what, "forward", s, rate->forward, flops, rate->forward_workspace);
        attention_pass(what, "backward", s, rate->backward, 2.5 * flops, rate->backward_workspace);
    }

    void table() const {
        fmt::print("\n{:<64} {:>9} {:>10}\n", "", "TFLOP/s", "ms");
        for (const Row& r : rows_) fmt::print("{:<64} {:>9.1f} {:>10.3f}\n", r.what, r.teraflops, r.milliseconds);
    }
    int failures() const { return failures_; }

private:
    void attention_pass(std::string_view what, std::string_view pass, const AttentionShape& s,
                        const cuda::SustainedCall& call, double flops, Bytes workspace) {
        const double rate = flops / call.each.value / 1e12;
        fmt::print(R"({{"kind": "attention", "pass": "{}", "queries": {}, "keys": {}, "heads": {}, "kv_heads": {}, )"
                   R"("seconds": {:.4g}, "calls": {}, "tflops": {:.1f}, "workspace_bytes": {}}})"
                   "\n",
                   pass, s.length.value, s.begin.value + s.length.value, s.heads, s.kv_heads, call.each.value,
                   call.calls, rate, workspace.value);
        rows_.push_back({fmt::format("{} {}", what, pass), rate, 1e3 * call.each.value});
    }

    // What fails is said, and the rest is measured.
    template <class Measure>
    auto guarded(const std::string& what, const Measure& measure) -> std::optional<decltype(measure())> {
        try {
            return measure();
        } catch (const std::exception& error) {
            fmt::print(stderr, "{}: {}\n", what, error.what());
            ++failures_;
            return std::nullopt;
        }
    }

    Seconds each_;
    std::map<GemmShape, cuda::ProductRate> measured_;
    std::vector<Row> rows_;
    int failures_ = 0;
};

void products(Report& report) {
    for (const Model& m : kModels)
        for (const std::int64_t tokens : kTokens) {
            for (const Layer& l : layers(m)) {
                report.product(m, l.name, "forward", forward(tokens, l));
                report.product(m, l.name, "data gradient", data_gradient(tokens, l));
                report.product(m, l.name, "weight gradient", weight_gradient(tokens, l));
            }
            const Layer head{"head", m.hidden, m.vocabulary};
            if (tokens != kLogitsChunk) continue;
            report.product(m, head.name, "forward", forward(tokens, head, ResultType::kFp32));
            report.product(m, head.name, "data gradient", data_gradient(tokens, head));
            report.product(m, head.name, "weight gradient", weight_gradient(tokens, head));
        }
}

void attention(Report& report) {
    for (const auto& [heads, kv_heads] : {std::pair{16, 8}, std::pair{24, 8}})
        for (const auto& [queries, keys] :
             {std::pair{8192, 8192}, std::pair{8192, 65536}, std::pair{8192, 131072}, std::pair{16384, 131072}})
            report.attention(heads, kv_heads, queries, keys);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    using namespace sluice;
    const double each = argc > 1 ? std::atof(argv[1]) : 0.5;
    const std::string_view only = argc > 2 ? argv[2] : "";
    try {
        fmt::print(R"({{"kind": "device", "device": "{}", "cublas": "{}", "cudnn": "{}", "seconds_each": {}}})"
                   "\n",
                   cuda::describe_gpu().name, cuda::cublas_description(), cuda::cudnn_description(), each);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 3;
    }
    Report report(Seconds{each});
    if (only != "attention") products(report);
    if (only != "products") attention(report);
    report.table();
    return report.failures() == 0 ? 0 : 3;
}
