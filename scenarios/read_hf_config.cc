#include "scenarios/read_hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "base/nearest_name.h"
#include "scenarios/architecture_limits.h"
#include "scenarios/hf_unsupported.h"
#include "scenarios/json_tree.h"
#include "scenarios/quote.h"
#include "scenarios/yaml_field.h"

namespace sluice {
namespace {

enum class Window : std::uint8_t {
    kWhenSet,      // `sliding_window` is not null
    kBySwitch,     // `use_sliding_window`; `sliding_window` alone is without effect
    kUnlessNulled  // `sliding_window` is not null, or is left out
};

enum class Biases : std::uint8_t {
    kNone,              // or on Q, K and V only
    kAll,               // on every linear layer of a block
    kByTwoKeys,         // `attention_bias` and `mlp_bias`, off when left out
    kMlpAndByAttention  // always in the MLP; `attention_bias`, on when left out
};

// Which key holds what, and what holds without one. Where a family's default is the number of some published model and
// not a rule, the key is required instead. Source: the configuration and modelling code of each family in Hugging Face
// transformers.
struct Family {
    std::string_view model_type;
    std::string_view causal_lm;  // the class with a language-model head
    std::string_view layers = "num_hidden_layers", hidden = "hidden_size", heads = "num_attention_heads",
                     ffn = "intermediate_size", activation = "hidden_act", rope_theta = "rope_theta",
                     norm_epsilon = "rms_norm_eps";
    double default_epsilon = 1e-6;
    bool llama_like = true;  // SwiGLU, RMSNorm, `num_key_value_heads`, `head_dim`
    bool kv_heads_required = false, head_dim_required = false;
    Positions positions = Positions::kRope;
    Window window = Window::kWhenSet;
    Biases biases = Biases::kNone;
    bool tied_by_default = false;
};

constexpr std::string_view kKvHeads = "num_key_value_heads", kHeadDim = "head_dim";
constexpr Family kFamilies[] = {
    {.model_type = "llama", .causal_lm = "LlamaForCausalLM", .biases = Biases::kByTwoKeys},
    {.model_type = "mistral",
     .causal_lm = "MistralForCausalLM",
     .kv_heads_required = true,
     .window = Window::kUnlessNulled},
    {.model_type = "qwen2", .causal_lm = "Qwen2ForCausalLM", .kv_heads_required = true, .window = Window::kBySwitch},
    {.model_type = "qwen3",
     .causal_lm = "Qwen3ForCausalLM",
     .kv_heads_required = true,
     .head_dim_required = true,
     .window = Window::kBySwitch},
    {.model_type = "gpt2",
     .causal_lm = "GPT2LMHeadModel",
     .layers = "n_layer",
     .hidden = "n_embd",
     .heads = "n_head",
     .ffn = "n_inner",
     .activation = "activation_function",
     .norm_epsilon = "layer_norm_epsilon",
     .default_epsilon = 1e-5,
     .llama_like = false,
     .positions = Positions::kLearned,
     .biases = Biases::kAll,
     .tied_by_default = true},
    {.model_type = "gpt_neox",
     .causal_lm = "GPTNeoXForCausalLM",
     .rope_theta = "rotary_emb_base",
     .norm_epsilon = "layer_norm_eps",
     .default_epsilon = 1e-5,
     .llama_like = false,
     .biases = Biases::kMlpAndByAttention},
};

// All that compute the same on tensors of the same shape.
constexpr std::string_view kGatedActivations[] = {"silu", "swish"};
constexpr std::string_view kPlainActivations[] = {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"};

// A key that is there and not null.
std::optional<YamlField> find_set(const YamlField& config, std::string_view key) {
    const auto field = find(config, key);
    return field && field->node->kind != YamlKind::kNull ? field : std::nullopt;
}

bool read_flag(const YamlField& config, std::string_view key, bool otherwise) {
    const auto field = find_set(config, key);
    if (!field) return otherwise;
    if (field->node->quoted) fail(*field, fmt::format("got {}, expected true or false", quote(field->node->text)));
    return read_bool(*field);
}

// ---- Family
// ----------------------------------------------------------------------------------------------------------

std::array<std::string_view, std::size(kFamilies)> family_names() {
    std::array<std::string_view, std::size(kFamilies)> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = kFamilies[i].model_type;
    return names;
}

[[noreturn]] void refuse_model_type(const YamlField& field) {
    const std::string_view type = read_text(field);
    const auto names = family_names();
    const std::string expected = fmt::format("one of: {}", fmt::join(names, ", "));
    if (const std::string_view feature = unsupported_model_type(type); !feature.empty())
        refuse_feature(field, feature, expected);
    const std::string nearest = nearest_name(type, names);
    fail(field, fmt::format("got {}, expected {}{}", quote(type), expected,
                            nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
}

const Family& family_of_type(const YamlField& field) {
    for (const Family& family : kFamilies)
        if (family.model_type == read_text(field)) return family;
    refuse_model_type(field);
}

const Family& family_of_class(const YamlField& field) {
    std::array<std::string_view, std::size(kFamilies)> classes;
    for (std::size_t i = 0; i < classes.size(); ++i) {
        if (kFamilies[i].causal_lm == read_text(field)) return kFamilies[i];
        classes[i] = kFamilies[i].causal_lm;
    }
    fail(field, fmt::format("got {}, expected one of: {}", quote(read_text(field)), fmt::join(classes, ", ")));
}

// By `model_type`, or in old configs without one by the class in `architectures`. Where both are there they must agree:
// another class of the family has another head than ours, or none.
const Family& read_family(const YamlField& config) {
    const auto type = find_set(config, "model_type");
    const auto classes = find_set(config, "architectures");
    if (!classes) return family_of_type(get(config, "model_type"));
    const Family& family = type ? family_of_type(*type) : family_of_class(items(*classes).front());
    for (const YamlField& name : items(*classes))
        if (read_text(name) != family.causal_lm)
            fail(name, fmt::format("got {}, expected \"{}\" for model_type {}", quote(read_text(name)),
                                   family.causal_lm, family.model_type));
    return family;
}

// ---- What every layer is
// ---------------------------------------------------------------------------------------------

void expect_no_window(const YamlField& config, const Family& family) {
    constexpr std::string_view kFeature = "sliding-window attention";
    if (family.window == Window::kBySwitch) {
        if (read_flag(config, "use_sliding_window", false))
            refuse_feature(get(config, "use_sliding_window"), kFeature, "false");
        return;
    }
    if (const auto window = find_set(config, "sliding_window")) refuse_feature(*window, kFeature, "null");
    if (family.window == Window::kUnlessNulled && !find(config, "sliding_window"))
        fail(config,
             fmt::format("missing key \"sliding_window\": without it model_type {} has a window of 4096, but {} "
                         "is not supported, expected null",
                         family.model_type, kFeature));
}

void expect_full_attention(const YamlField& config, std::int64_t layers) {
    const auto types = find_set(config, "layer_types");
    if (!types) return;
    const std::vector<YamlField> all = items(*types);
    for (const YamlField& type : all) {
        const std::string_view text = read_text(type);
        if (text == "full_attention") continue;
        const std::string_view feature = text == "sliding_attention"   ? "sliding-window attention"
                                         : text == "chunked_attention" ? "chunked attention"
                                         : text == "linear_attention"  ? "linear attention"
                                                                       : "this type of layer";
        refuse_feature(type, feature, "\"full_attention\"");
    }
    if (static_cast<std::int64_t>(all.size()) != layers)
        fail(*types, fmt::format("got {} types for {} layers, expected one per layer", all.size(), layers));
}

// ---- Shape
// -----------------------------------------------------------------------------------------------------------

std::int64_t read_kv_heads(const YamlField& config, const Family& family, std::int64_t heads) {
    if (!family.llama_like) return heads;
    if (family.kv_heads_required) get(config, kKvHeads);  // throws when missing; null is the rule below
    const auto field = find_set(config, kKvHeads);
    if (!field) return heads;
    const std::int64_t kv_heads = read_count(*field, kMostHeads);
    if (heads % kv_heads != 0)
        fail(*field, fmt::format("got {}, expected a divisor of {} {}", kv_heads, family.heads, heads));
    return kv_heads;
}

std::int64_t read_head_dim(const YamlField& config, const Family& family, const Architecture& a) {
    if (family.head_dim_required) return read_count(get(config, kHeadDim), kWidestHead);
    if (family.llama_like)
        if (const auto field = find_set(config, kHeadDim)) return read_count(*field, kWidestHead);
    const YamlField heads = get(config, family.heads);
    if (a.hidden % a.heads != 0)
        fail(heads, fmt::format("got {}, which does not divide {} {}, expected a divisor{}", a.heads, family.hidden,
                                a.hidden, family.llama_like ? " or a key \"head_dim\"" : ""));
    if (a.hidden / a.heads > kWidestHead)
        fail(heads, fmt::format("got {}, which makes head_dim {}, expected at most {}", a.heads, a.hidden / a.heads,
                                kWidestHead));
    return a.hidden / a.heads;
}

// GPT-2 alone has a rule for what is left out.
std::int64_t read_ffn(const YamlField& config, const Family& family, std::int64_t hidden) {
    if (family.model_type == "gpt2" && !find_set(config, family.ffn)) return 4 * hidden;
    return read_count(get(config, family.ffn), kWidestFfn);
}

ActivationFunction read_activation(const YamlField& config, const Family& family) {
    const YamlField field = get(config, family.activation);
    const std::span<const std::string_view> known =
        family.llama_like ? std::span<const std::string_view>(kGatedActivations) : kPlainActivations;
    if (std::find(known.begin(), known.end(), read_text(field)) == known.end())
        refuse_feature(field, "this activation", fmt::format("{}", fmt::join(known, " or ")));
    return family.llama_like ? ActivationFunction::kSwiglu : ActivationFunction::kGelu;
}

// Newer configs have the base of the angles in `rope_parameters`, under one name for every family.
double read_rope_theta(const YamlField& config, const Family& family) {
    std::optional<YamlField> theta = find_set(config, family.rope_theta);
    if (const auto parameters = find_set(config, "rope_parameters"); !theta && parameters)
        theta = find_set(*parameters, "rope_theta");
    return theta ? read_number(*theta, kRopeThetaLimits) : Architecture{}.rope_theta;
}

double read_norm_epsilon(const YamlField& config, const Family& family) {
    const auto epsilon = find_set(config, family.norm_epsilon);
    return epsilon ? read_number(*epsilon, kNormEpsilonLimits) : family.default_epsilon;
}

// Ours is one flag for all linear layers, true only when all of them have biases; docs/scenarios.md lists what that
// leaves out.
bool read_biases(const YamlField& config, const Family& family) {
    const bool attention = read_flag(config, "attention_bias", family.biases == Biases::kMlpAndByAttention);
    const bool mlp = read_flag(config, "mlp_bias", family.biases == Biases::kMlpAndByAttention);
    switch (family.biases) {
        case Biases::kNone:
            return false;
        case Biases::kAll:
            return true;
        case Biases::kByTwoKeys:
            return attention && mlp;
        case Biases::kMlpAndByAttention:
            return attention;
    }
    return false;
}

}  // namespace

Architecture parse_hf_config(std::string_view text, std::string_view origin, std::string_view name) {
    const YamlNode tree = parse_json(text, origin);
    const YamlField config{&tree, "", origin, tree.place};
    if (tree.kind != YamlKind::kMapping) fail(config, "got no object, expected the object of a Hugging Face config");
    const Family& family = read_family(config);
    expect_supported_keys(config);
    expect_no_window(config, family);
    Architecture a;
    a.name = name;
    a.layers = read_count(get(config, family.layers), kMostLayers);
    expect_full_attention(config, a.layers);
    a.hidden = read_count(get(config, family.hidden), kWidestHidden);
    a.heads = read_count(get(config, family.heads), kMostHeads);
    a.kv_heads = read_kv_heads(config, family, a.heads);
    a.head_dim = read_head_dim(config, family, a);
    if (a.heads * a.head_dim > kWidestAttention)
        fail(get(config, family.heads), fmt::format("{} x head_dim = {} x {} = {}, expected at most {}", family.heads,
                                                    a.heads, a.head_dim, a.heads * a.head_dim, kWidestAttention));
    a.ffn = read_ffn(config, family, a.hidden);
    a.vocabulary = read_count(get(config, "vocab_size"), kLargestVocabulary);
    a.activation = read_activation(config, family);
    a.norm = family.llama_like ? Norm::kRmsNorm : Norm::kLayerNorm;
    a.positions = family.positions;
    a.bias = read_biases(config, family);
    a.tied_embeddings = read_flag(config, "tie_word_embeddings", family.tied_by_default);
    if (a.positions == Positions::kRope) a.rope_theta = read_rope_theta(config, family);
    a.norm_epsilon = read_norm_epsilon(config, family);
    return a;
}

}  // namespace sluice
