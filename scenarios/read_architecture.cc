#include "scenarios/read_architecture.h"

#include <fmt/format.h>

#include "scenarios/architecture_limits.h"

namespace sluice {
namespace {

constexpr std::string_view kKeys[] = {"name",      "layers", "hidden",          "heads",      "kv_heads",
                                      "head_dim",  "ffn",    "vocabulary",      "activation", "norm",
                                      "positions", "bias",   "tied_embeddings", "rope_theta", "norm_epsilon"};
constexpr Choice<ActivationFunction> kActivations[] = {{"gelu", ActivationFunction::kGelu},
                                                       {"swiglu", ActivationFunction::kSwiglu}};
constexpr Choice<Norm> kNorms[] = {{"layernorm", Norm::kLayerNorm}, {"rmsnorm", Norm::kRmsNorm}};
constexpr Choice<Positions> kPositions[] = {{"learned", Positions::kLearned}, {"rope", Positions::kRope}};

std::int64_t read_kv_heads(const YamlField& root, std::int64_t heads) {
    const auto field = find(root, "kv_heads");
    if (!field) return heads;
    const std::int64_t kv_heads = read_count(*field, kMostHeads);
    if (heads % kv_heads != 0) fail(*field, fmt::format("got {}, expected a divisor of heads {}", kv_heads, heads));
    return kv_heads;
}

std::int64_t read_head_dim(const YamlField& root, std::int64_t hidden, std::int64_t heads) {
    if (const auto field = find(root, "head_dim")) return read_count(*field, kWidestHead);
    const YamlField at = get(root, "heads");
    if (hidden % heads != 0)
        fail(at, fmt::format("got {}, which does not divide hidden {}, expected a divisor or a key \"head_dim\"", heads,
                             hidden));
    if (hidden / heads > kWidestHead)
        fail(at,
             fmt::format("got {}, which makes head_dim {}, expected at most {}", heads, hidden / heads, kWidestHead));
    return hidden / heads;
}

}  // namespace

Architecture read_architecture(const YamlField& root, std::string_view name) {
    expect_keys(root, kKeys);
    const auto own_name = find(root, "name");
    Architecture a;
    a.name = own_name ? read_name(*own_name) : std::string(name);
    a.layers = read_count(get(root, "layers"), kMostLayers);
    a.hidden = read_count(get(root, "hidden"), kWidestHidden);
    a.heads = read_count(get(root, "heads"), kMostHeads);
    a.kv_heads = read_kv_heads(root, a.heads);
    a.head_dim = read_head_dim(root, a.hidden, a.heads);
    if (a.heads * a.head_dim > kWidestAttention)
        fail(get(root, "heads"), fmt::format("heads x head_dim = {} x {} = {}, expected at most {}", a.heads,
                                             a.head_dim, a.heads * a.head_dim, kWidestAttention));
    a.ffn = read_count(get(root, "ffn"), kWidestFfn);
    a.vocabulary = read_count(get(root, "vocabulary"), kLargestVocabulary);
    a.activation = read_choice(get(root, "activation"), kActivations);
    a.norm = read_choice(get(root, "norm"), kNorms);
    a.positions = read_choice(get(root, "positions"), kPositions);
    a.bias = read_bool(get(root, "bias"));
    a.tied_embeddings = read_bool(get(root, "tied_embeddings"));
    if (const auto theta = find(root, "rope_theta")) a.rope_theta = read_number(*theta, kRopeThetaLimits);
    if (const auto epsilon = find(root, "norm_epsilon")) a.norm_epsilon = read_number(*epsilon, kNormEpsilonLimits);
    return a;
}

}  // namespace sluice
