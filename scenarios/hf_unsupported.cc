#include "scenarios/hf_unsupported.h"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::string_view kExperts = "mixture of experts";
constexpr std::string_view kLatent = "multi-head latent attention";
constexpr std::string_view kLinear = "linear attention";
constexpr std::string_view kStateSpace = "a state-space layer";
constexpr std::string_view kWindow = "sliding-window attention";
constexpr std::string_view kChunked = "chunked attention";
constexpr std::string_view kSparse = "sparse attention";
constexpr std::string_view kMultimodal = "a multimodal model";
constexpr std::string_view kEncoderDecoder = "an encoder-decoder model";
constexpr std::string_view kFamily = "this family";  // dense and causal, but not read
constexpr std::string_view kEncoder = "an encoder without a causal mask";

struct Unsupported {
    std::string_view name, feature;
};

constexpr Unsupported kModelTypes[] = {
    {"dbrx", kExperts},
    {"deepseek_v2", kLatent},
    {"deepseek_v3", kLatent},
    {"ernie4_5_moe", kExperts},
    {"glm4_moe", kExperts},
    {"gpt_oss", kExperts},
    {"granitemoe", kExperts},
    {"kimi_k2", kLatent},
    {"llama4_text", kExperts},
    {"mixtral", kExperts},
    {"olmoe", kExperts},
    {"phimoe", kExperts},
    {"qwen2_moe", kExperts},
    {"qwen3_moe", kExperts},
    {"minicpm3", kLatent},
    {"minimax", kLinear},
    {"qwen3_next", kLinear},
    {"rwkv", kLinear},
    {"bamba", kStateSpace},
    {"falcon_h1", kStateSpace},
    {"falcon_mamba", kStateSpace},
    {"jamba", kStateSpace},
    {"mamba", kStateSpace},
    {"mamba2", kStateSpace},
    {"nemotron_h", kStateSpace},
    {"recurrent_gemma", kStateSpace},
    {"zamba", kStateSpace},
    {"zamba2", kStateSpace},
    {"cohere2", kWindow},
    {"gemma2", kWindow},
    {"gemma3_text", kWindow},
    {"ministral", kWindow},
    {"gemma3", kMultimodal},
    {"idefics3", kMultimodal},
    {"llama4", kMultimodal},
    {"llava", kMultimodal},
    {"llava_next", kMultimodal},
    {"mistral3", kMultimodal},
    {"mllama", kMultimodal},
    {"paligemma", kMultimodal},
    {"qwen2_5_vl", kMultimodal},
    {"qwen2_vl", kMultimodal},
    {"qwen3_vl", kMultimodal},
    {"bart", kEncoderDecoder},
    {"mbart", kEncoderDecoder},
    {"mt5", kEncoderDecoder},
    {"t5", kEncoderDecoder},
    {"whisper", kEncoderDecoder},
    {"bert", kEncoder},
    {"bloom", kFamily},
    {"cohere", kFamily},
    {"falcon", kFamily},
    {"gemma", kFamily},
    {"glm", kFamily},
    {"glm4", kFamily},
    {"gpt_bigcode", kFamily},
    {"gpt_neo", kFamily},
    {"gptj", kFamily},
    {"granite", kFamily},
    {"mpt", kFamily},
    {"olmo", kFamily},
    {"olmo2", kFamily},
    {"opt", kFamily},
    {"phi", kFamily},
    {"phi3", kFamily},
    {"smollm3", kFamily},
    {"stablelm", kFamily},
    {"starcoder2", kFamily},
    {"modernbert", kEncoder},
    {"roberta", kEncoder},
};

// Only keys whose presence changes the layers or the weights. `sliding_window` depends on the family.
constexpr Unsupported kKeys[] = {
    {"auto_map", "code that comes with the model"},
    {"quantization_config", "a quantized model"},
    {"compression_config", "a quantized model"},
    {"text_config", kMultimodal},
    {"vision_config", kMultimodal},
    {"audio_config", kMultimodal},
    {"is_encoder_decoder", kEncoderDecoder},
    {"add_cross_attention", "cross-attention"},
    {"cross_attention_layers", "cross-attention"},
    {"num_experts", kExperts},
    {"num_local_experts", kExperts},
    {"num_experts_per_tok", kExperts},
    {"n_routed_experts", kExperts},
    {"n_shared_experts", kExperts},
    {"kv_lora_rank", kLatent},
    {"q_lora_rank", kLatent},
    {"qk_rope_head_dim", kLatent},
    {"qk_nope_head_dim", kLatent},
    {"attention_chunk_size", kChunked},
    {"index_topk", kSparse},
    {"full_attention_interval", kLinear},
    {"attn_layer_indices", kStateSpace},
    {"attn_layer_period", kStateSpace},
    {"hybrid_override_pattern", kStateSpace},
    {"state_size", kStateSpace},
    {"num_nextn_predict_layers", "multi-token prediction"},
    {"block_configs", "a shape per layer"},
};

constexpr Unsupported kPrefixes[] = {
    {"moe_", kExperts}, {"linear_", kLinear}, {"mamba_", kStateSpace}, {"ssm_", kStateSpace}};

// Keys of other characters are nobody's, and could not stand in a one-line message.
bool is_plain_key(std::string_view key) {
    return key.size() <= 64 && std::all_of(key.begin(), key.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
           });
}

std::string_view feature_of_key(std::string_view key) {
    for (const Unsupported& known : kKeys)
        if (known.name == key) return known.feature;
    if (!is_plain_key(key)) return "";
    for (const Unsupported& known : kPrefixes)
        if (key.starts_with(known.name)) return known.feature;
    return "";
}

bool is_off(const YamlNode& value) {
    switch (value.kind) {
        case YamlKind::kNull:
            return true;
        case YamlKind::kScalar:
            return value.text.empty() || (!value.quoted && (value.text == "false" || value.text == "0"));
        case YamlKind::kSequence:
            return value.items.empty();
        case YamlKind::kMapping:
            return value.entries.empty();
    }
    return false;
}

std::string shown(const YamlNode& value) {
    if (value.kind == YamlKind::kSequence) return "a list";
    if (value.kind == YamlKind::kMapping) return "an object";
    return value.quoted ? quote(value.text) : value.text.substr(0, 60);
}

}  // namespace

std::string_view unsupported_model_type(std::string_view model_type) {
    for (const Unsupported& known : kModelTypes)
        if (known.name == model_type) return known.feature;
    return "";
}

void expect_supported_keys(const YamlField& config) {
    for (const YamlEntry& entry : config.node->entries) {
        const std::string_view feature = feature_of_key(entry.key);
        if (feature.empty() || is_off(entry.value)) continue;
        refuse_feature(*find(config, entry.key), feature, "null or no such key");
    }
}

void refuse_feature(const YamlField& field, std::string_view feature, std::string_view expected) {
    fail(field, fmt::format("got {}, but {} is not supported, expected {}", shown(*field.node), feature, expected));
}

}  // namespace sluice
