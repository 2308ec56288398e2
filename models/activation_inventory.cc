#include "models/activation_inventory.h"

#include <cmath>

namespace sluice {
namespace {

struct Widths {
    double element, hidden, ffn, queries, kv, heads;
    bool gated, mean_and_scale;

    explicit Widths(const Scenario& s)
        : element(static_cast<double>(size_of(s.precision.weights).value)),
          hidden(static_cast<double>(s.model.hidden)),
          ffn(static_cast<double>(s.model.ffn)),
          queries(static_cast<double>(s.model.heads * s.model.head_dim)),
          kv(static_cast<double>(s.model.kv_heads * s.model.head_dim)),
          heads(static_cast<double>(s.model.heads)),
          gated(s.model.activation == ActivationFunction::kSwiglu),
          mean_and_scale(s.model.norm == Norm::kLayerNorm) {}
};

Bytes traffic(double bytes) { return Bytes{std::llround(bytes)}; }

std::vector<ActivationTensor> runtime_inventory(const Scenario& s) {
    const Widths w(s);
    const double row = w.element * w.hidden;
    const double normed = s.saves_gathered() ? row * static_cast<double>(s.policy.sp) : row;  // on every rank
    const double statistics = w.mean_and_scale ? 8 : 4;  // fp32 mean and reciprocal deviation; RMSNorm has no mean
    const double first = (w.gated ? 2 : 1) * w.ffn;
    const double mean_keys = static_cast<double>(s.sequence.value) / 2;
    using enum Lifetime;
    return {
        {"block input", Tensor::kBlockInput, row, kForwardBackward, {}, {}, "", false},
        {"norm1 statistics",
         Tensor::kNorm1Statistics,
         statistics,
         kForwardBackward,
         {},
         traffic(row),
         "block input",
         true},
        {"norm1 output", Tensor::kNorm1Output, normed, kForwardBackward, {}, traffic(2 * row), "block input", true},
        {"query", Tensor::kQuery, w.element * w.queries, kForwardBackward, Flops{2 * w.hidden * w.queries},
         traffic(2 * w.element * w.queries), "norm1 output", true},
        {"key and value",
         {},
         2 * w.element * w.kv,
         kEverySubsequence,
         Flops{4 * w.hidden * w.kv},
         traffic(4 * w.element * w.kv),
         "norm1 output",
         false},
        {"attention output",
         Tensor::kAttentionOutput,
         w.element * w.queries,
         kForwardBackward,
         Flops{4 * mean_keys * w.queries},
         {},
         "query, key and value",
         false},
        {"log-sum-exp",
         Tensor::kLogSumExp,
         4 * w.heads,
         kForwardBackward,
         Flops{4 * mean_keys * w.queries},
         {},
         "query, key and value",
         false},
        {"middle residual", Tensor::kMiddleResidual, row, kForwardBackward, Flops{2 * w.hidden * w.queries},
         traffic(3 * row), "attention output, block input", false},
        {"norm2 statistics",
         Tensor::kNorm2Statistics,
         statistics,
         kForwardBackward,
         {},
         traffic(row),
         "middle residual",
         true},
        {"norm2 output", Tensor::kNorm2Output, normed, kForwardBackward, {}, traffic(2 * row), "middle residual", true},
        {w.gated ? "gate and up" : "first MLP output",
         Tensor::kFirstMlpOutput,
         w.element * first,
         kForwardBackward,
         Flops{2 * w.hidden * first},
         {},
         "norm2 output",
         true},
        {"activation output",
         Tensor::kActivationOutput,
         w.element * w.ffn,
         kForwardBackward,
         {},
         traffic(w.element * (first + w.ffn)),
         w.gated ? "gate and up" : "first MLP output",
         true},
    };
}

// SPPO Fig. 9 (a), in bytes per token and hidden unit; Section 5.1 sums them to 38 with K and V 2 each.
std::vector<ActivationTensor> paper_inventory(const Scenario& s) {
    const auto h = static_cast<double>(s.model.hidden);
    using enum Lifetime;
    return {
        {"block input (paper)", {}, 2 * h, kForwardBackward, {}, {}, "", false},
        {"query (paper)", {}, 2 * h, kForwardBackward, {}, {}, "", false},
        {"key and value (paper)", {}, 4 * h, kEverySubsequence, {}, {}, "", false},
        {"attention (paper)", {}, 8 * h, kForwardBackward, {}, {}, "", false},
        {"MLP (paper)", {}, 22 * h, kForwardBackward, {}, {}, "", false},
    };
}

template <class Predicate>
Bytes bytes_of(const Scenario& scenario, Subsequence sub, Predicate counts) {
    double per_token = 0;
    for (const ActivationTensor& t : activation_inventory(scenario))
        if (counts(t)) per_token += t.bytes_per_token;
    const double per_rank = per_token * static_cast<double>(sub.length.value) / static_cast<double>(scenario.policy.sp);
    return Bytes{std::llround(std::ceil(per_rank))};
}

}  // namespace

std::vector<ActivationTensor> activation_inventory(const Scenario& scenario) {
    if (scenario.policy.inventory == Inventory::kPaper) return paper_inventory(scenario);
    std::vector<ActivationTensor> tensors = runtime_inventory(scenario);
    if (scenario.policy.inventory == Inventory::kLean)
        for (ActivationTensor& t : tensors) t.transient = t.cheap && t.recompute_per_token.value == 0;
    if (scenario.recomputes_layers())
        for (ActivationTensor& t : tensors)
            t.cheap = t.lifetime == Lifetime::kForwardBackward && t.tensor != Tensor::kBlockInput;
    return tensors;
}

Bytes unit_bytes(const Scenario& scenario, Subsequence sub) {
    return bytes_of(scenario, sub,
                    [](const ActivationTensor& t) { return t.lifetime == Lifetime::kForwardBackward && !t.transient; });
}

Bytes cheap_bytes(const Scenario& scenario, Subsequence sub) {
    return bytes_of(scenario, sub, [](const ActivationTensor& t) { return t.cheap && !t.transient; });
}

Bytes transient_bytes(const Scenario& scenario, Subsequence sub) {
    return bytes_of(scenario, sub, [](const ActivationTensor& t) { return t.transient; });
}

std::vector<SavedTensor> saved_tensors(const Scenario& scenario, Subsequence sub, UnitPart part) {
    std::vector<SavedTensor> tensors;
    for (const ActivationTensor& t : activation_inventory(scenario)) {
        if (!t.tensor || t.transient != (part == UnitPart::kTransient)) continue;
        if ((part == UnitPart::kCheap && !t.cheap) || (part == UnitPart::kRest && t.cheap)) continue;
        const double bytes =
            t.bytes_per_token * static_cast<double>(sub.length.value) / static_cast<double>(scenario.policy.sp);
        tensors.push_back({*t.tensor, Bytes{std::llround(bytes)}});
    }
    return tensors;
}

Bytes kv_bytes(const Scenario& scenario, Subsequence sub) {
    return size_of(scenario.precision.weights) *
           (2 * sub.length.value * (scenario.model.kv_heads / scenario.policy.sp) * scenario.model.head_dim);
}

Bytes kv_gradient_bytes(const Scenario& scenario, Subsequence sub) {
    return size_of(scenario.precision.kv_gradients) *
           (2 * sub.length.value * (scenario.model.kv_heads / scenario.policy.sp) * scenario.model.head_dim);
}

}  // namespace sluice
