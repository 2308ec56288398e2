#include "scenarios/write_hf_config.h"

#include <fmt/format.h>

namespace sluice {
namespace {

std::string_view json(bool value) { return value ? "true" : "false"; }

std::string llama(const Architecture& a, Tokens positions) {
    return fmt::format(
        "{{\n  \"model_type\": \"llama\",\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"hidden_size\": {},\n"
        "  \"intermediate_size\": {},\n  \"num_hidden_layers\": {},\n  \"num_attention_heads\": {},\n"
        "  \"num_key_value_heads\": {},\n  \"head_dim\": {},\n  \"vocab_size\": {},\n  \"max_position_embeddings\": "
        "{},\n"
        "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": {},\n  \"rope_theta\": {:#},\n  \"attention_bias\": "
        "{},\n"
        "  \"mlp_bias\": {},\n  \"tie_word_embeddings\": {},\n  \"torch_dtype\": \"float32\"\n}}\n",
        a.hidden, a.ffn, a.layers, a.heads, a.kv_heads, a.head_dim, a.vocabulary, positions.value, a.norm_epsilon,
        a.rope_theta, json(a.bias), json(a.bias), json(a.tied_embeddings));
}

std::string neox(const Architecture& a, Tokens positions) {
    return fmt::format(
        "{{\n  \"model_type\": \"gpt_neox\",\n  \"architectures\": [\"GPTNeoXForCausalLM\"],\n  \"hidden_size\": {},\n"
        "  \"intermediate_size\": {},\n  \"num_hidden_layers\": {},\n  \"num_attention_heads\": {},\n"
        "  \"vocab_size\": {},\n  \"max_position_embeddings\": {},\n  \"hidden_act\": \"gelu\",\n"
        "  \"layer_norm_eps\": {},\n  \"rotary_pct\": 1.0,\n  \"rotary_emb_base\": {},\n"
        "  \"use_parallel_residual\": false,\n  \"attention_bias\": {},\n  \"tie_word_embeddings\": {},\n"
        "  \"torch_dtype\": \"float32\"\n}}\n",
        a.hidden, a.ffn, a.layers, a.heads, a.vocabulary, positions.value, a.norm_epsilon, a.rope_theta, json(a.bias),
        json(a.tied_embeddings));
}

std::string gpt2(const Architecture& a, Tokens positions) {
    return fmt::format(
        "{{\n  \"model_type\": \"gpt2\",\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"n_embd\": {},\n"
        "  \"n_inner\": {},\n  \"n_layer\": {},\n  \"n_head\": {},\n  \"vocab_size\": {},\n  \"n_positions\": {},\n"
        "  \"activation_function\": \"gelu_new\",\n  \"layer_norm_epsilon\": {},\n  \"resid_pdrop\": 0.0,\n"
        "  \"embd_pdrop\": 0.0,\n  \"attn_pdrop\": 0.0,\n  \"tie_word_embeddings\": {},\n"
        "  \"torch_dtype\": \"float32\"\n}}\n",
        a.hidden, a.ffn, a.layers, a.heads, a.vocabulary, positions.value, a.norm_epsilon, json(a.tied_embeddings));
}

}  // namespace

std::string hf_config_text(const Architecture& a, Tokens positions) {
    if (a.norm == Norm::kRmsNorm && a.activation == ActivationFunction::kSwiglu && a.positions == Positions::kRope)
        return llama(a, positions);
    const bool plain = a.norm == Norm::kLayerNorm && a.activation == ActivationFunction::kGelu && a.bias &&
                       a.heads == a.kv_heads && a.hidden == a.heads * a.head_dim;
    if (!plain) return {};
    return a.positions == Positions::kRope ? neox(a, positions) : gpt2(a, positions);
}

}  // namespace sluice
