#include "schedule/schedule.h"

#include <array>

namespace sluice {
namespace {

template <class Enum, std::size_t N>
std::string_view at(Enum value, const std::array<std::string_view, N>& names) {
    const auto i = static_cast<std::size_t>(value);
    return i < N ? names[i] : "?";
}

}  // namespace

std::string_view name(Pass v) { return at(v, std::array<std::string_view, 2>{"forward", "backward"}); }

std::string_view name(PointwiseKind v) {
    return at(v, std::array<std::string_view, 9>{"norm", "rope", "activation", "residual", "embedding", "cross_entropy",
                                                 "accumulate", "adamw", "other"});
}

std::string_view name(CollectiveKind v) {
    return at(v, std::array<std::string_view, 6>{"all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast",
                                                 "reduce"});
}

std::string_view name(LaneKind v) {
    return at(v, std::array<std::string_view, 6>{"compute", "copy_out", "copy_in", "collective", "send", "receive"});
}

std::string_view name(Phase v) {
    return at(v, std::array<std::string_view, 6>{"forward", "backward", "input_grad", "weight_grad", "recompute",
                                                 "optimizer"});
}

std::string_view name(Function v) {
    return at(v, std::array<std::string_view, 23>{
                     "none", "embedding", "norm1", "attention", "norm2", "mlp", "residual", "final_norm", "loss", "final_norm_gradient",
                     "norms", "query", "attention_weight", "mlp_weight", "gradients", "replicated", "tied_table",
                     "gradient_norm", "adamw", "qkv", "projection", "projection_weight", "activation"});
}

std::string_view name(Tensor v) {
    return at(v, std::array<std::string_view, 11>{
                     "block_input", "norm1_statistics", "norm1_output", "query", "attention_output", "log_sum_exp",
                     "middle_residual", "norm2_statistics", "norm2_output", "first_mlp_output", "activation_output"});
}

std::string_view name(Space v) { return at(v, std::array<std::string_view, 2>{"device", "host"}); }

std::string_view name(BufferKind v) {
    return at(v, std::array<std::string_view, kBufferKinds>{"weights", "grads", "optimizer", "kv", "dkv", "activation",
                                                            "staging", "workspace", "comm"});
}

std::string_view name(AccessMode v) { return at(v, std::array<std::string_view, 3>{"read", "write", "accumulate"}); }

}  // namespace sluice
