#include "models/model_flops.h"

#include "models/kernel_cost.h"

namespace sluice {

Flops layer_forward_flops(const Scenario& s, Subsequence sub, CausalCount count) {
    const Architecture& a = s.model;
    const auto tokens = static_cast<double>(sub.length.value);
    const double first = static_cast<double>(a.activation == ActivationFunction::kSwiglu ? 2 * a.ffn : a.ffn);
    const double weights =
        static_cast<double>(a.hidden) *
        (static_cast<double>((2 * a.heads + 2 * a.kv_heads) * a.head_dim) + first + static_cast<double>(a.ffn));
    const Attention attention{Pass::kForward, true, sub.length.value, sub.end().value, a.heads, a.kv_heads, a.head_dim};
    return Flops{2 * tokens * weights} + flops(attention) * (count == CausalCount::kUncut ? 2.0 : 1.0);
}

Flops step_model_flops(const Scenario& s) {
    const Subsequence whole{Tokens{0}, s.sequence};
    const Flops layers = layer_forward_flops(s, whole, CausalCount::kExact) * static_cast<double>(s.model.layers);
    const Flops head{2.0 * static_cast<double>(s.sequence.value) *
                     static_cast<double>(s.model.hidden * s.model.vocabulary)};
    return (layers + head) * (3.0 * static_cast<double>(s.batch));
}

}  // namespace sluice
