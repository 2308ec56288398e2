#include "models/rank_memory.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

std::int64_t norm_width(const Architecture& a) { return a.norm == Norm::kLayerNorm ? 2 * a.hidden : a.hidden; }

std::int64_t vocabulary_shard(const Scenario& s) {
    return (s.model.vocabulary + s.weight_shards() - 1) / s.weight_shards();  // padded to the degree, as Megatron does
}

// Ulysses: the ranks of a group hold all of it.
Parameters on_every_rank(const Parameters& p) { return {0, p.total()}; }

Bytes attention_workspace(const Scenario& s, Subsequence sub, double per_head_and_query) {
    const std::int64_t heads = s.model.heads / s.policy.sp;
    return Bytes{std::llround(std::ceil(per_head_and_query * static_cast<double>(heads * sub.length.value)))};
}

Bytes grouped_backward_workspace(const Scenario& s, std::int64_t keys) {
    const std::int64_t heads = s.model.heads / s.policy.sp;
    return Bytes{std::llround(std::ceil(s.calibration.grouped_backward_workspace * static_cast<double>(heads * keys)))};
}

}  // namespace

std::int64_t table_parameters(const Scenario& s) { return vocabulary_shard(s) * s.model.hidden; }

Parameters layer_parameters(const Scenario& s) {
    const Architecture& a = s.model;
    const std::int64_t first = a.activation == ActivationFunction::kSwiglu ? 2 * a.ffn : a.ffn;
    const std::int64_t qkv = (a.heads + 2 * a.kv_heads) * a.head_dim;
    Parameters p;
    p.sharded =
        (a.hidden * qkv + a.heads * a.head_dim * a.hidden + a.hidden * first + a.ffn * a.hidden) / s.weight_shards();
    p.replicated = 2 * norm_width(a);
    if (a.bias) p.sharded += (qkv + first) / s.weight_shards(), p.replicated += 2 * a.hidden;
    return s.ulysses() ? on_every_rank(p) : p;
}

Parameters embedding_parameters(const Scenario& s) {
    const std::int64_t positions = s.model.positions == Positions::kLearned ? s.sequence.value * s.model.hidden : 0;
    const Parameters p{table_parameters(s), positions};
    return s.ulysses() ? on_every_rank(p) : p;
}

Parameters head_parameters(const Scenario& s) {
    const bool shares_embedding = s.model.tied_embeddings && s.policy.pp == 1;
    const Parameters p{shares_embedding ? 0 : table_parameters(s), norm_width(s.model)};
    return s.ulysses() ? on_every_rank(p) : p;
}

std::int64_t model_parameters(const Scenario& s) {
    Scenario whole = s;
    whole.policy.sp = 1;
    whole.policy.pp = 1;  // a tied head is counted once
    return s.model.layers * layer_parameters(whole).total() + embedding_parameters(whole).total() +
           head_parameters(whole).total();
}

std::int64_t held_parameters(const Scenario& s, ZeroStage stage, std::int64_t parameters) {
    return s.shares(stage) ? (parameters + s.policy.dp - 1) / s.policy.dp : parameters;
}

// With one holder of every weight in a replica, or with all its ranks as holders, a layer is one run.
ParameterRuns layer_runs(const Scenario& s) {
    const Architecture& a = s.model;
    const Parameters p = layer_parameters(s);
    if (s.weight_shards() == 1) return {{p.total(), s.ulysses()}};
    const std::int64_t qkv = (a.heads + 2 * a.kv_heads) * a.head_dim, bias = a.bias ? a.hidden : 0;
    const std::int64_t attention =
        (a.hidden * qkv + a.heads * a.head_dim * a.hidden + (a.bias ? qkv : 0)) / s.weight_shards();
    const std::int64_t norm = norm_width(a);
    ParameterRuns runs = {{norm, true}, {attention, false}, {bias + norm, true}, {p.sharded - attention, false}};
    if (bias > 0) runs.push_back({bias, true});
    return runs;
}

ParameterRuns embedding_runs(const Scenario& s) {
    ParameterRuns runs = {{table_parameters(s), s.ulysses()}};
    const std::int64_t positions = embedding_parameters(s).total() - table_parameters(s);
    if (positions > 0) runs.push_back({positions, s.policy.sp > 1});
    return runs;
}

ParameterRuns head_runs(const Scenario& s) {
    ParameterRuns runs;
    const std::int64_t norm = norm_width(s.model), table = head_parameters(s).total() - norm;
    if (table > 0) runs.push_back({table, s.ulysses()});
    runs.push_back({norm, s.policy.sp > 1});
    return runs;
}

Parameters all_parameters(const ParameterRuns& runs) {
    Parameters all;
    for (const ParameterRun& run : runs) (run.replicated ? all.replicated : all.sharded) += run.parameters;
    return all;
}

Parameters held_parameters(const Scenario& s, ZeroStage stage, const ParameterRuns& runs) {
    ParameterRuns held = runs;
    for (ParameterRun& run : held) run.parameters = held_parameters(s, stage, run.parameters);
    return all_parameters(held);
}

Bytes weight_bytes(const Scenario& s, std::int64_t parameters) { return size_of(s.precision.weights) * parameters; }
Bytes optimizer_bytes(const Scenario& s, std::int64_t parameters) {
    return (s.precision.weights == DataType::kFp32 ? 8_B : 12_B) * parameters;
}
Bytes gradient_bytes(const Scenario& s, std::int64_t parameters) { return size_of(s.precision.gradients) * parameters; }

Bytes forward_workspace(const Scenario& s, Subsequence sub) {
    return s.calibration.gemm_workspace + attention_workspace(s, sub, s.calibration.attention_forward_workspace);
}

Bytes backward_workspace(const Scenario& s, Subsequence sub) {
    const std::int64_t element = size_of(s.precision.weights).value;
    const std::int64_t queries = sub.length.value * (s.model.heads / s.policy.sp) * s.model.head_dim;
    const std::int64_t inner = (s.model.activation == ActivationFunction::kSwiglu ? 3 : 2) * s.model.ffn;
    const std::int64_t keys = std::min(sub.end().value, kKvGradientChunk.value);
    // MLP: gradient of the activation's output, turned into that of its input. Of all tokens and a share of the
    // columns, or of a share of the tokens and all columns.
    const Bytes mlp{element * (sub.length.value * inner / s.policy.sp)};
    // attention: gradients of its output and of the query, and the own dK and dV rounded for the products, where their
    // accumulators have another type (Ulysses has these among what it exchanges); a chunk of dK and dV, the library's
    // own
    const std::int64_t kv_width = (s.model.kv_heads / s.policy.sp) * s.model.head_dim;
    const bool rounded = s.precision.kv_gradients != s.precision.weights;
    const bool grouped = s.model.kv_heads < s.model.heads;
    const Bytes own{element * 2 * (queries + (rounded ? sub.length.value * kv_width : 0))};
    const Bytes attention = (s.ulysses() ? 0_B : own) + Bytes{element * 2 * keys * kv_width} +
                            (grouped ? grouped_backward_workspace(s, keys) : 0_B) +
                            attention_workspace(s, sub, s.calibration.attention_backward_workspace);
    return s.calibration.gemm_workspace + std::max(mlp, attention);
}

Bytes loss_workspace(const Scenario& s, Subsequence sub) {
    const std::int64_t rows = s.ulysses() ? sub.length.value / s.policy.sp : sub.length.value;
    const std::int64_t tokens = std::min(rows, kLogitsChunk.value);
    return s.calibration.gemm_workspace + Bytes{4 * tokens * vocabulary_shard(s)};
}

}  // namespace sluice
