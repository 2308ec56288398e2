// Hugging Face configs: the published shapes of six families arrive, and what is wrong or not supported is refused with
// the whole message. Parameter counts are in tests/models/hf_parameters_test.cc.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/json_tree.h"
#include "scenarios/read_architecture.h"
#include "scenarios/read_hf_config.h"
#include "scenarios/scenario.h"
#include "scenarios/write_hf_config.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/scenarios/hf";
const std::filesystem::path kShipped = std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios";

std::string golden(const std::string& name) { return read_file(kFolder / (name + ".json"), 1_MiB); }

std::string shape(const Architecture& a) {
    std::string text;
    for (const std::int64_t n : {a.layers, a.hidden, a.heads, a.kv_heads, a.head_dim, a.ffn, a.vocabulary})
        text += std::to_string(n) + " ";
    text += a.activation == ActivationFunction::kSwiglu ? "swiglu " : "gelu ";
    text += a.norm == Norm::kRmsNorm ? "rmsnorm " : "layernorm ";
    text += a.positions == Positions::kRope ? "rope" : "learned";
    return text + (a.bias ? " bias" : "") + (a.tied_embeddings ? " tied" : "");
}

std::string message_of(const std::string& text) {
    try {
        return "accepted: " + shape(parse_hf_config(text, "config.json", "model"));
    } catch (const InputError& error) {
        return error.what();
    }
}

TEST(HfConfig, PublishedShapesArrive) {
    const struct {
        std::string file, expected;  // layers, hidden, heads, KV heads, head_dim, ffn, vocabulary
    } cases[] = {
        {"llama-2-7b", "32 4096 32 32 128 11008 32000 swiglu rmsnorm rope"},
        {"llama-3-8b", "32 4096 32 8 128 14336 128256 swiglu rmsnorm rope"},
        {"mistral-7b-v0.2", "32 4096 32 8 128 14336 32000 swiglu rmsnorm rope"},
        {"mistral-nemo-12b", "40 5120 32 8 128 14336 131072 swiglu rmsnorm rope"},  // 32 x 128 is not 5120
        {"qwen2-7b", "28 3584 28 4 128 18944 152064 swiglu rmsnorm rope"},
        {"qwen3-8b", "36 4096 32 8 128 12288 151936 swiglu rmsnorm rope"},
        {"qwen3-0.6b", "28 1024 16 8 128 3072 151936 swiglu rmsnorm rope tied"},
        {"gpt2", "12 768 12 12 64 3072 50257 gelu layernorm learned bias tied"},
        {"gpt-neox-20b", "44 6144 64 64 96 24576 50432 gelu layernorm rope bias"},
    };
    for (const auto& c : cases) {
        const Architecture a = parse_hf_config(golden(c.file), "config.json", c.file);
        EXPECT_EQ(a.name, c.file);
        EXPECT_EQ(shape(a), c.expected) << c.file;
    }
}

TEST(HfConfig, AgreesWithTheShippedShape) {
    const std::string origin = (kShipped / "architectures/llama3-8b.yaml").string();
    const YamlNode tree = parse_yaml(read_file(origin, 1_MiB), origin);
    EXPECT_EQ(shape(parse_hf_config(golden("llama-3-8b"), "config.json", "x")),
              shape(read_architecture(YamlField{&tree, "", origin, tree.place}, "x")));
}

// A golden config with one text replaced; `from` must be in it once.
std::string edited(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = golden(file);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << file << ": " << from;
    if (at == text.npos) return text;
    EXPECT_EQ(text.find(from, at + 1), text.npos) << file << ": " << from;
    return text.replace(at, from.size(), to);
}

struct Edit {
    std::string file, from, to, expected;
};

// What a key means when it is left out, null, or said in another way.
TEST(HfConfig, DefaultsAreThoseOfTheFamilies) {
    const std::string kLlama2 = "accepted: 32 4096 32 32 128 11008 32000 swiglu rmsnorm rope";
    const std::string kGpt2 = "accepted: 12 768 12 12 64 3072 50257 gelu layernorm learned bias tied";
    const std::string kNeox = "accepted: 44 6144 64 64 96 24576 50432 gelu layernorm rope";
    const std::string kQwen2 = "accepted: 28 3584 28 4 128 18944 152064 swiglu rmsnorm rope";
    const Edit edits[] = {
        {"llama-2-7b", "  \"num_key_value_heads\": 32,\n", "", kLlama2},
        {"llama-2-7b", "\"num_key_value_heads\": 32", "\"num_key_value_heads\": null", kLlama2},
        {"llama-2-7b", "  \"tie_word_embeddings\": false,\n", "", kLlama2},
        {"llama-2-7b", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", kLlama2 + " tied"},
        {"llama-2-7b", "  \"model_type\": \"llama\",\n", "", kLlama2},
        {"llama-2-7b", "[\n    \"LlamaForCausalLM\"\n  ]", "null", kLlama2},
        {"llama-2-7b", "\"silu\"", "\"swish\"", kLlama2},
        {"llama-2-7b", "\"use_cache\": true", "\"attention_bias\": true", kLlama2},  // our flag cannot say it
        {"llama-2-7b", "\"use_cache\": true", "\"attention_bias\": true, \"mlp_bias\": true", kLlama2 + " bias"},
        {"llama-2-7b", "\"use_cache\": true", "\"num_experts\": 0, \"auto_map\": {}, \"moe_topk\": null", kLlama2},
        {"llama-2-7b", "\"use_cache\": true", "\"is_encoder_decoder\": false, \"head_dim\": null", kLlama2},
        {"llama-2-7b", "\"use_cache\": true", "\"head_dim\": 64",
         "accepted: 32 4096 32 32 64 11008 32000 swiglu rmsnorm rope"},
        {"gpt2", "\"n_ctx\": 1024", "\"n_inner\": null", kGpt2},
        {"gpt2", "\"n_ctx\": 1024", "\"n_inner\": 3000",
         "accepted: 12 768 12 12 64 3000 50257 gelu layernorm learned bias tied"},
        {"gpt2", "\"n_ctx\": 1024", "\"tie_word_embeddings\": false",
         "accepted: 12 768 12 12 64 3072 50257 gelu layernorm learned bias"},
        {"gpt-neox-20b", "\"use_cache\": true", "\"attention_bias\": false", kNeox},
        {"gpt-neox-20b", "\"gelu_fast\"", "\"gelu\"", kNeox + " bias"},
        {"qwen2-7b", "  \"use_sliding_window\": false,\n", "", kQwen2},
        {"qwen2-7b", "\"num_key_value_heads\": 4", "\"num_key_value_heads\": null",
         "accepted: 28 3584 28 28 128 18944 152064 swiglu rmsnorm rope"},
    };
    for (const Edit& e : edits)
        EXPECT_EQ(message_of(edited(e.file, e.from, e.to)), e.expected) << e.file << ": " << e.to;
}

std::string constants(const std::string& text) {
    const Architecture a = parse_hf_config(text, "config.json", "model");
    std::ostringstream out;
    out << a.rope_theta << " " << a.norm_epsilon;
    return out.str();
}

TEST(HfConfig, ConstantsArriveOrAreTheFamilys) {
    EXPECT_EQ(constants(golden("llama-2-7b")), "10000 1e-05");
    EXPECT_EQ(constants(golden("llama-3-8b")), "500000 1e-05");
    EXPECT_EQ(constants(golden("qwen3-8b")), "1e+06 1e-06");
    EXPECT_EQ(constants(golden("gpt2")), "10000 1e-05");
    EXPECT_EQ(constants(golden("gpt-neox-20b")), "10000 1e-05");
    const Edit edits[] = {
        {"llama-3-8b", "\"rms_norm_eps\": 1e-05,", "", "500000 1e-06"},  // left out: transformers' default
        {"llama-3-8b", "\"rope_theta\": 500000.0,", "", "10000 1e-05"},
        {"llama-3-8b", "\"rope_theta\": 500000.0,", "\"rope_parameters\": {\"rope_theta\": 2500},", "2500 1e-05"},
        {"llama-3-8b", "\"rope_theta\": 500000.0,", "\"rope_parameters\": null,", "10000 1e-05"},
        {"gpt2", "\"layer_norm_epsilon\": 1e-05,", "\"layer_norm_epsilon\": 0.001,", "10000 0.001"},
        {"gpt2", "\"n_ctx\": 1024", "\"rope_theta\": 3", "10000 1e-05"},  // has none
        {"gpt-neox-20b", "\"rotary_emb_base\": 10000", "\"rotary_emb_base\": 25000", "25000 1e-05"},
        {"gpt-neox-20b", "\"layer_norm_eps\": 1e-05,", "", "10000 1e-05"},
    };
    for (const Edit& e : edits) EXPECT_EQ(constants(edited(e.file, e.from, e.to)), e.expected) << e.file << e.to;
    EXPECT_EQ(message_of(edited("llama-3-8b", "\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": 0")),
              "config.json:19:19: rms_norm_eps: got \"0\", expected 1e-12 ... 0.1");
}

TEST(HfConfig, WrittenConfigsAreReadAgain) {
    for (const std::string file : {"llama-3-8b", "gpt2", "gpt-neox-20b"}) {
        Architecture a = parse_hf_config(golden(file), "config.json", "model");
        if (a.positions == Positions::kRope) a.rope_theta = 1.25e6;
        a.norm_epsilon = 3e-7;
        const std::string text = hf_config_text(a, Tokens{2048});
        const Architecture again = parse_hf_config(text, "config.json", "model");
        EXPECT_EQ(shape(again), shape(a)) << text;
        EXPECT_EQ(again.rope_theta, a.rope_theta) << text;
        EXPECT_EQ(again.norm_epsilon, a.norm_epsilon) << text;
    }
}

TEST(HfConfig, FullAttentionInEveryLayerIsAccepted) {
    std::string types = "\"full_attention\"";
    for (int i = 1; i < 12; ++i) types += ", \"full_attention\"";
    const std::string text = edited("gpt2", "\"n_ctx\": 1024", "\"layer_types\": [" + types + "]");
    EXPECT_EQ(message_of(text), "accepted: 12 768 12 12 64 3072 50257 gelu layernorm learned bias tied");
}

TEST(HfConfig, WhatIsNotSupportedIsRefusedByName) {
    const std::string kFamilies = "llama, mistral, qwen2, qwen3, gpt2, gpt_neox";
    const std::string kOff = " is not supported, expected null or no such key";
    const Edit edits[] = {
        {"mistral-7b-v0.2", "\"sliding_window\": null", "\"sliding_window\": 4096",
         "config.json:19:21: sliding_window: got 4096, but sliding-window attention is not supported, expected null"},
        {"mistral-7b-v0.2", "  \"sliding_window\": null,\n", "",
         "config.json:1:1: missing key \"sliding_window\": without it model_type mistral has a window of 4096, but "
         "sliding-window attention is not supported, expected null"},
        {"mistral-7b-v0.2", "\"sliding_window\": null", "\"use_sliding_window\": false, \"sliding_window\": 4096",
         "config.json:19:50: sliding_window: got 4096, but sliding-window attention is not supported, expected null"},
        {"qwen2-7b", "\"use_sliding_window\": false", "\"use_sliding_window\": true",
         "config.json:24:25: use_sliding_window: got true, but sliding-window attention is not supported, expected "
         "false"},
        {"llama-2-7b", "\"use_cache\": true", "\"num_local_experts\": 8",
         "config.json:21:24: num_local_experts: got 8, but mixture of experts" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"moe_intermediate_size\": 1408",
         "config.json:21:28: moe_intermediate_size: got 1408, but mixture of experts" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"kv_lora_rank\": 512",
         "config.json:21:19: kv_lora_rank: got 512, but multi-head latent attention" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"attention_chunk_size\": 8192",
         "config.json:21:27: attention_chunk_size: got 8192, but chunked attention" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"linear_conv_kernel_dim\": 4",
         "config.json:21:29: linear_conv_kernel_dim: got 4, but linear attention" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"quantization_config\": {\"bits\": 4}",
         "config.json:21:26: quantization_config: got an object, but a quantized model" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"vision_config\": {\"depth\": 32}",
         "config.json:21:20: vision_config: got an object, but a multimodal model" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"is_encoder_decoder\": true",
         "config.json:21:25: is_encoder_decoder: got true, but an encoder-decoder model" + kOff},
        {"gpt2", "\"n_ctx\": 1024", "\"add_cross_attention\": true",
         "config.json:13:26: add_cross_attention: got true, but cross-attention" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"auto_map\": {\"AutoModelForCausalLM\": \"m.M\"}",
         "config.json:21:15: auto_map: got an object, but code that comes with the model" + kOff},
        {"llama-2-7b", "\"use_cache\": true", "\"layer_types\": [\"full_attention\", \"sliding_attention\"]",
         "config.json:21:37: layer_types[1]: got \"sliding_attention\", but sliding-window attention is not supported, "
         "expected \"full_attention\""},
        {"llama-2-7b", "\"use_cache\": true", "\"layer_types\": [\"mamba\"]",
         "config.json:21:19: layer_types[0]: got \"mamba\", but this type of layer is not supported, expected "
         "\"full_attention\""},
        {"llama-2-7b", "\"use_cache\": true", "\"layer_types\": [\"full_attention\"]",
         "config.json:21:18: layer_types: got 1 types for 32 layers, expected one per layer"},
        {"llama-2-7b", "\"llama\"", "\"mixtral\"",
         "config.json:12:17: model_type: got \"mixtral\", but mixture of experts is not supported, expected one of: " +
             kFamilies},
        {"llama-2-7b", "\"llama\"", "\"deepseek_v3\"",
         "config.json:12:17: model_type: got \"deepseek_v3\", but multi-head latent attention is not supported, "
         "expected one of: " +
             kFamilies},
        {"llama-2-7b", "\"llama\"", "\"qwen3_next\"",
         "config.json:12:17: model_type: got \"qwen3_next\", but linear attention is not supported, expected one of: " +
             kFamilies},
        {"llama-2-7b", "\"llama\"", "\"mamba\"",
         "config.json:12:17: model_type: got \"mamba\", but a state-space layer is not supported, expected one of: " +
             kFamilies},
        {"llama-2-7b", "\"llama\"", "\"t5\"",
         "config.json:12:17: model_type: got \"t5\", but an encoder-decoder model is not supported, expected one of: " +
             kFamilies},
        {"llama-2-7b", "\"llama\"", "\"falcon\"",
         "config.json:12:17: model_type: got \"falcon\", but this family is not supported, expected one of: " +
             kFamilies},
        {"llama-2-7b", "\"llama\"", "\"lama\"",
         "config.json:12:17: model_type: got \"lama\", expected one of: " + kFamilies + "; did you mean \"llama\"?"},
    };
    for (const Edit& e : edits)
        EXPECT_EQ(message_of(edited(e.file, e.from, e.to)), e.expected) << e.file << ": " << e.to;
}

TEST(HfConfig, WrongValuesAreRefused) {
    const Edit edits[] = {
        {"llama-2-7b", "\"LlamaForCausalLM\"", "\"LlamaForSequenceClassification\"",
         "config.json:3:5: architectures[0]: got \"LlamaForSequenceClassification\", expected \"LlamaForCausalLM\" for "
         "model_type llama"},
        {"llama-2-7b", "[\n    \"LlamaForCausalLM\"\n  ]", "[\"LlamaForCausalLM\", 1]",
         "config.json:2:41: architectures[1]: got \"1\", expected \"LlamaForCausalLM\" for model_type llama"},
        {"llama-2-7b", "[\n    \"LlamaForCausalLM\"\n  ]", "\"LlamaForCausalLM\"",
         "config.json:2:20: architectures: got a single value, expected a list"},
        {"llama-2-7b", "\"model_type\": \"llama\"", "\"model_type\": [\"llama\"]",
         "config.json:12:17: model_type: got a list, expected a single value"},
        {"llama-2-7b", "  \"vocab_size\": 32000\n", "  \"vocab\": 32000\n",
         "config.json:1:1: missing key \"vocab_size\""},
        {"llama-2-7b", "  \"num_hidden_layers\": 32,\n", "", "config.json:1:1: missing key \"num_hidden_layers\""},
        {"llama-2-7b", "\"hidden_size\": 4096", "\"hidden_size\": null",
         "config.json:8:3: hidden_size: got nothing, expected a single value"},
        {"llama-2-7b", "\"hidden_size\": 4096", "\"hidden_size\": {\"of\": 4096}",
         "config.json:8:18: hidden_size: got a mapping, expected a single value"},
        {"llama-2-7b", "\"hidden_size\": 4096", "\"hidden_size\": \"4096\"",
         "config.json:8:18: hidden_size: got the text \"4096\", expected a bare whole number"},
        {"llama-2-7b", "\"hidden_size\": 4096", "\"hidden_size\": 4096.0",
         "config.json:8:18: hidden_size: got \"4096.0\", expected a bare whole number"},
        {"llama-2-7b", "\"hidden_size\": 4096", "\"hidden_size\": -4096",
         "config.json:8:18: hidden_size: got \"-4096\", which is negative, expected a bare whole number"},
        {"llama-2-7b", "\"hidden_size\": 4096", "\"hidden_size\": 65600",
         "config.json:8:18: hidden_size: got 65600, expected 1 ... 65536"},
        {"llama-2-7b", "\"hidden_size\": 4096", "\"hidden_size\": 18446744073709551616",
         "config.json:8:18: hidden_size: got \"18446744073709551616\", which has more digits than 64 bits hold"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 0",
         "config.json:14:24: num_hidden_layers: got 0, expected 1 ... 1024"},
        {"llama-2-7b", "\"num_attention_heads\": 32", "\"num_attention_heads\": 48",
         "config.json:15:26: num_key_value_heads: got 32, expected a divisor of num_attention_heads 48"},
        {"gpt2", "\"n_head\": 12", "\"n_head\": 10",
         "config.json:15:13: n_head: got 10, which does not divide n_embd 768, expected a divisor"},
        {"llama-2-7b", "\"num_key_value_heads\": 32", "\"head_dim\": 2048",
         "config.json:15:15: head_dim: got 2048, expected 1 ... 1024"},
        {"qwen3-8b", "  \"head_dim\": 128,\n", "", "config.json:1:1: missing key \"head_dim\""},
        {"mistral-7b-v0.2", "  \"num_key_value_heads\": 8,\n", "",
         "config.json:1:1: missing key \"num_key_value_heads\""},
        {"llama-2-7b", "\"silu\"", "\"relu\"",
         "config.json:7:17: hidden_act: got \"relu\", but this activation is not supported, expected silu or swish"},
        {"gpt-neox-20b", "\"gelu_fast\"", "\"relu\"",
         "config.json:8:17: hidden_act: got \"relu\", but this activation is not supported, expected gelu or gelu_new "
         "or gelu_fast or gelu_pytorch_tanh"},
        {"llama-2-7b", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": \"false\"",
         "config.json:19:26: tie_word_embeddings: got \"false\", expected true or false"},
        {"llama-2-7b", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 1",
         "config.json:19:26: tie_word_embeddings: got \"1\", expected true or false"},
    };
    for (const Edit& e : edits)
        EXPECT_EQ(message_of(edited(e.file, e.from, e.to)), e.expected) << e.file << ": " << e.to;
}

// As published: what makes each family another thing than the planner's transformer is named.
TEST(HfConfig, OtherFamiliesAreRefusedByName) {
    const struct {
        std::string text, expected;
    } cases[] = {
        {R"({"model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 128})",
         "config.json:1:16: model_type: got \"qwen3_moe\", but mixture of experts is not supported, expected one of: "
         "llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "auto_map": {"AutoConfig": "c.C"}})",
         "config.json:1:60: model_type: got \"deepseek_v3\", but multi-head latent attention is not supported, "
         "expected one of: llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "mamba2", "state_size": 128})",
         "config.json:1:16: model_type: got \"mamba2\", but a state-space layer is not supported, expected one of: "
         "llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "rwkv", "attention_hidden_size": 4096})",
         "config.json:1:16: model_type: got \"rwkv\", but linear attention is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "llava", "text_config": {"model_type": "llama"}})",
         "config.json:1:16: model_type: got \"llava\", but a multimodal model is not supported, expected one of: "
         "llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "gemma"})",
         "config.json:1:16: model_type: got \"gemma\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "gemma2", "sliding_window": 4096})",
         "config.json:1:16: model_type: got \"gemma2\", but sliding-window attention is not supported, expected one "
         "of: llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "gemma3_text"})",
         "config.json:1:16: model_type: got \"gemma3_text\", but sliding-window attention is not supported, expected "
         "one of: llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "phi"})",
         "config.json:1:16: model_type: got \"phi\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "phi3", "sliding_window": 2047})",
         "config.json:1:16: model_type: got \"phi3\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "gpt_oss", "layer_types": ["sliding_attention", "full_attention"]})",
         "config.json:1:16: model_type: got \"gpt_oss\", but mixture of experts is not supported, expected one of: "
         "llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "gpt_bigcode"})",
         "config.json:1:16: model_type: got \"gpt_bigcode\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "gptj"})",
         "config.json:1:16: model_type: got \"gptj\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "opt"})",
         "config.json:1:16: model_type: got \"opt\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "bloom"})",
         "config.json:1:16: model_type: got \"bloom\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "mpt"})",
         "config.json:1:16: model_type: got \"mpt\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "bert"})",
         "config.json:1:16: model_type: got \"bert\", but an encoder without a causal mask is not supported, expected "
         "one of: llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "t5", "is_encoder_decoder": true})",
         "config.json:1:16: model_type: got \"t5\", but an encoder-decoder model is not supported, expected one of: "
         "llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "jamba"})",
         "config.json:1:16: model_type: got \"jamba\", but a state-space layer is not supported, expected one of: "
         "llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "stablelm"})",
         "config.json:1:16: model_type: got \"stablelm\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "starcoder2"})",
         "config.json:1:16: model_type: got \"starcoder2\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "cohere"})",
         "config.json:1:16: model_type: got \"cohere\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "olmo2"})",
         "config.json:1:16: model_type: got \"olmo2\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "glm4"})",
         "config.json:1:16: model_type: got \"glm4\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "granite"})",
         "config.json:1:16: model_type: got \"granite\", but this family is not supported, expected one of: llama, "
         "mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "LLaMA"})",
         "config.json:1:16: model_type: got \"LLaMA\", expected one of: llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "gpt-neox"})",
         "config.json:1:16: model_type: got \"gpt-neox\", expected one of: llama, mistral, qwen2, qwen3, gpt2, "
         "gpt_neox; did you mean \"gpt_neox\"?"},
        {R"({"model_type": "qwen2\u0000"})",
         "config.json:1:16: model_type: got \"qwen2 \", expected one of: llama, mistral, qwen2, qwen3, gpt2, gpt_neox; "
         "did you mean \"qwen2\"?"},
        {R"({"model_type": "\u009b31mllama"})",
         "config.json:1:16: model_type: got \" 31mllama\", expected one of: llama, mistral, qwen2, qwen3, gpt2, "
         "gpt_neox"},
        {R"({"model_type": 4})",
         "config.json:1:16: model_type: got \"4\", expected one of: llama, mistral, qwen2, qwen3, gpt2, gpt_neox"},
        {R"({"model_type": "llama", "architectures": ["MistralForCausalLM"]})",
         "config.json:1:43: architectures[0]: got \"MistralForCausalLM\", expected \"LlamaForCausalLM\" for model_type "
         "llama"},
        {R"({"model_type": "llama", "architectures": ["LlamaForCausalLM", "LlamaForCausalLM"], "layer_types": 3})",
         "config.json:1:1: missing key \"num_hidden_layers\""},
        {R"({"architectures": "LlamaForCausalLM"})",
         "config.json:1:19: architectures: got a single value, expected a list"},
    };
    for (const auto& c : cases) EXPECT_EQ(message_of(c.text), c.expected) << c.text;
}

TEST(HfConfig, NumbersOfOtherKindsAreRefused) {
    const Edit edits[] = {
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 1e400",
         "config.json:14:24: not valid JSON: the number is out of range"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": -1e400",
         "config.json:14:24: not valid JSON: the number is out of range"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 9223372036854775808",
         "config.json:14:24: num_hidden_layers: got \"9223372036854775808\", which does not fit in 63 bits"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 1e3",
         "config.json:14:24: num_hidden_layers: got \"1e3\", expected a bare whole number"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 32.5",
         "config.json:14:24: num_hidden_layers: got \"32.5\", expected a bare whole number"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": [32]",
         "config.json:14:24: num_hidden_layers: got a list, expected a single value"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": \"thirty-two\"",
         "config.json:14:24: num_hidden_layers: got the text \"thirty-two\", expected a bare whole number"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": true",
         "config.json:14:24: num_hidden_layers: got \"true\", expected a bare whole number"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 1e18446744073709551616",
         "config.json:14:24: not valid JSON: the number is out of range"},
        {"llama-2-7b", "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 00",
         "config.json:14:26: not valid JSON: while parsing object - unexpected number literal; expected '}'"},
        {"llama-2-7b", "\"num_key_value_heads\": 32", "\"num_key_value_heads\": 64",
         "config.json:15:26: num_key_value_heads: got 64, expected a divisor of num_attention_heads 32"},
        {"llama-2-7b", "\"num_key_value_heads\": 32", "\"num_key_value_heads\": 5",
         "config.json:15:26: num_key_value_heads: got 5, expected a divisor of num_attention_heads 32"},
        {"llama-2-7b", "\"num_key_value_heads\": 32", "\"num_key_value_heads\": 0",
         "config.json:15:26: num_key_value_heads: got 0, expected 1 ... 1024"},
        {"llama-2-7b", "\"intermediate_size\": 11008", "\"intermediate_size\": 262145",
         "config.json:10:24: intermediate_size: got 262145, expected 1 ... 262144"},
        {"llama-2-7b", "\"intermediate_size\": 11008", "\"intermediate_size\": null",
         "config.json:10:3: intermediate_size: got nothing, expected a single value"},
        {"llama-2-7b", "\"vocab_size\": 32000", "\"vocab_size\": 4194305",
         "config.json:22:17: vocab_size: got 4194305, expected 1 ... 4194304"},
        {"llama-2-7b", "\"vocab_size\": 32000", "\"vocab_size\": -1",
         "config.json:22:17: vocab_size: got \"-1\", which is negative, expected a bare whole number"},
        {"llama-2-7b", "\"hidden_act\": \"silu\"", "\"hidden_act\": [\"silu\"]",
         "config.json:7:17: hidden_act: got a list, expected a single value"},
        {"llama-2-7b", "\"use_cache\": true", "\"layer_types\": {\"0\": \"full_attention\"}",
         "config.json:21:18: layer_types: got a mapping, expected a list"},
        {"llama-2-7b", "\"use_cache\": true", "\"layer_types\": [null]",
         "config.json:21:19: layer_types[0]: got nothing, expected a single value"},
        {"llama-2-7b", "\"use_cache\": true", "\"layer_types\": []",
         "config.json:21:18: layer_types: got an empty list, expected at least one item"},
        {"llama-2-7b", "\"use_cache\": true", "\"attention_bias\": \"yes\"",
         "config.json:21:21: attention_bias: got \"yes\", expected true or false"},
        {"llama-2-7b", "\"use_cache\": true", "\"sliding_window\": 4096",
         "config.json:21:21: sliding_window: got 4096, but sliding-window attention is not supported, expected null"},
        {"llama-2-7b", "\"use_cache\": true", "\"sliding_window\": \"none\"",
         "config.json:21:21: sliding_window: got \"none\", but sliding-window attention is not supported, expected "
         "null"},
        {"llama-2-7b", "\"use_cache\": true", "\"num_experts\": [8]",
         "config.json:21:18: num_experts: got a list, but mixture of experts is not supported, expected null or no "
         "such key"},
        {"llama-2-7b", "\"use_cache\": true", "\"num_experts\": 1e1000",
         "config.json:21:18: not valid JSON: the number is out of range"},
        {"llama-2-7b", "\"num_attention_heads\": 32", "\"num_attention_heads\": 3",
         "config.json:15:26: num_key_value_heads: got 32, expected a divisor of num_attention_heads 3"},
        {"llama-2-7b", "\"use_cache\": true", "\"head_dim\": 0",
         "config.json:21:15: head_dim: got 0, expected 1 ... 1024"},
        {"llama-2-7b", "\"use_cache\": true", "\"head_dim\": 128.0",
         "config.json:21:15: head_dim: got \"128.0\", expected a bare whole number"},
        {"llama-2-7b", "\"use_cache\": true", "\"num_hidden_layers\": 32",
         "config.json:21:3: key \"num_hidden_layers\" is given twice, first in line 14"},
        {"llama-2-7b", "\"use_cache\": true", "\"num_hidden_l\\u0061yers\": 32",
         "config.json:21:3: key \"num_hidden_layers\" is given twice, first in line 14"},
        {"gpt2", "\"n_ctx\": 1024", "\"n_inner\": 300000",
         "config.json:13:14: n_inner: got 300000, expected 1 ... 262144"},
        {"gpt2", "\"n_head\": 12", "\"n_head\": 1",
         "accepted: 12 768 1 1 768 3072 50257 gelu layernorm learned bias tied"},
        {"gpt2", "\"n_embd\": 768", "\"n_embd\": 1536000",
         "config.json:14:13: n_embd: got 1536000, expected 1 ... 65536"},
        {"gpt2", "\"n_embd\": 768", "\"n_embd\": 65537", "config.json:14:13: n_embd: got 65537, expected 1 ... 65536"},
        {"qwen2-7b", "\"use_sliding_window\": false", "\"use_sliding_window\": \"false\"",
         "config.json:24:25: use_sliding_window: got \"false\", expected true or false"},
        {"qwen2-7b", "\"use_sliding_window\": false", "\"use_sliding_window\": 1",
         "config.json:24:25: use_sliding_window: got \"1\", expected true or false"},
        {"mistral-7b-v0.2", "\"sliding_window\": null", "\"sliding_window\": 0",
         "config.json:19:21: sliding_window: got 0, but sliding-window attention is not supported, expected null"},
        {"mistral-7b-v0.2", "\"sliding_window\": null", "\"sliding_window\": false",
         "config.json:19:21: sliding_window: got false, but sliding-window attention is not supported, expected null"},
    };
    for (const Edit& e : edits)
        EXPECT_EQ(message_of(edited(e.file, e.from, e.to)), e.expected) << e.file << ": " << e.to;
}

TEST(HfConfig, WhatIsNotJsonIsRefusedWithItsPlace) {
    const std::string deep(17, '[');
    std::string objects;
    for (int i = 0; i < 17; ++i) objects += "{\"a\":";
    const struct {
        std::string text, expected;
    } cases[] = {
        {"",
         "config.json:1:1: not valid JSON: while parsing value - unexpected end of input; expected '[', '{', or a "
         "literal"},
        {"[]", "config.json:1:1: got no object, expected the object of a Hugging Face config"},
        {"{}", "config.json:1:1: missing key \"model_type\""},
        {"{\"model_type\": null}", "config.json:1:2: model_type: got nothing, expected a single value"},
        {"{\"model_type\": null, \"architectures\": []}",
         "config.json:1:39: architectures: got an empty list, expected at least one item"},
        {"{\"architectures\": [\"LlamaModel\"]}",
         "config.json:1:20: architectures[0]: got \"LlamaModel\", expected one of: LlamaForCausalLM, "
         "MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, GPT2LMHeadModel, GPTNeoXForCausalLM"},
        {"{\n  \"a\": 1,\n}",
         "config.json:3:1: not valid JSON: while parsing object key - unexpected '}'; expected string literal"},
        {"{\"é\": tru}", "config.json:1:10: not valid JSON: while parsing value - invalid literal"},
        {"{\"a\": 1} {",
         "config.json:1:10: not valid JSON: while parsing value - unexpected '{'; expected end of input"},
        {"{\n\"a\": 1e999}", "config.json:2:6: not valid JSON: the number is out of range"},
        {"{\"a\": NaN}", "config.json:1:7: not valid JSON: while parsing value - invalid literal"},
        {"{\"\xff\": 1}",
         "config.json:1:3: not valid JSON: while parsing object key - invalid string: ill-formed UTF-8 byte"},
        {std::string("{}\0", 3), "config.json:1:3: not valid JSON: got byte 0x00"},
        {"{\"a\": 1,\n \"b\": 2,\n \"a\": 3}", "config.json:3:2: key \"a\" is given twice, first in line 1"},
        {deep, "config.json:1:17: nested deeper than the limit of 16 levels"},
        {std::string(100000, '['), "config.json:1:17: nested deeper than the limit of 16 levels"},
        {objects, "config.json:1:81: nested deeper than the limit of 16 levels"},
        {"{\"a\": \"\xed\xa0\x80\"}",
         "config.json:1:9: not valid JSON: while parsing value - invalid string: ill-formed UTF-8 byte"},
        {"{\"a\": \"\\ud800\"}",
         "config.json:1:14: not valid JSON: while parsing value - invalid string: surrogate U+D800..U+DBFF must be "
         "followed by U+DC00..U+DFFF"},
        {"{\"a\": \"\xe0\x80\xaf\"}",
         "config.json:1:9: not valid JSON: while parsing value - invalid string: ill-formed UTF-8 byte"},
        {"\xff\xfe{", "config.json:1:1: not valid JSON: while parsing value - invalid literal"},
        {"{\"a\": {\"b\": 1, \"\\u0062\": 2}}", "config.json:1:16: key \"b\" is given twice, first in line 1"},
        {"{a: 1}", "config.json:1:2: not valid JSON: while parsing object key - invalid literal"},
        {"{'a': 1}", "config.json:1:2: not valid JSON: while parsing object key - invalid literal"},
        {"{\"a\": 1 // layers\n}", "config.json:1:9: not valid JSON: while parsing object - invalid literal"},
        {"{\"a\": Infinity}", "config.json:1:7: not valid JSON: while parsing value - invalid literal"},
        {"{\"a\": -}",
         "config.json:1:8: not valid JSON: while parsing value - invalid number; expected digit after '-'"},
        {"{\"a\": 0x10}", "config.json:1:11: not valid JSON: while parsing object - invalid literal"},
        {"{\"a\": 01}",
         "config.json:1:9: not valid JSON: while parsing object - unexpected number literal; expected '}'"},
        {"{\"a\": \"b\nc\"}",
         "config.json:1:9: not valid JSON: while parsing value - invalid string: control character U+000A (LF) must be "
         "escaped to \\u000A or \\n"},
        {"\"llama\"", "config.json:1:1: got no object, expected the object of a Hugging Face config"},
        {"model_type: llama\n", "config.json:1:1: not valid JSON: while parsing value - invalid literal"},
        {std::string((1 << 20) + 1, ' '), "config.json: larger than the limit of 1048576 bytes"},
    };
    for (const auto& c : cases) EXPECT_EQ(message_of(c.text), c.expected) << c.text.substr(0, 60);
}

// Each key of each golden config with a value of every kind: accepted, or refused in one line that starts with the
// file.
TEST(HfConfig, AnyValueOfAnyKeyIsReadOrRefused) {
    int accepted = 0, refused = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
        const std::string text = read_file(entry.path(), 1_MiB);
        for (std::size_t at = text.find("\": "); at != text.npos; at = text.find("\": ", at + 1)) {
            const std::size_t end = text.find_first_of(",\n", at);
            if (text[at + 3] == '[' || text[at + 3] == '{') continue;  // several lines
            for (const char* value : {"null", "[]", "{}", "[null]", "[{}]", "{\"a\": null}", "\"\"", "\"x\\ny\"",
                                      "true", "0", "-1", "1", "1.5", "9223372036854775807", "9223372036854775808"}) {
                const std::string edited = text.substr(0, at + 3) + value + text.substr(end);
                const std::string message = message_of(edited);
                const bool good = message.starts_with("accepted: ");
                ++(good ? accepted : refused);
                EXPECT_TRUE(good || (message.starts_with("config.json:") && message.find('\n') == message.npos))
                    << message << edited;
            }
        }
    }
    EXPECT_GT(accepted, 1000);
    EXPECT_GT(refused, 500);
}

// Every token's place and text survive escapes, long characters, a byte order mark and any spacing.
TEST(JsonTree, PlacesAndTexts) {
    const std::string text =
        "\xef\xbb\xbf{ \"a\\\"}\" :[1.50,-2e3 ,true,null],\r\n\t\"é😀\":{\"c\":\"\\u00e9\\\\\"},\"d\":[]}";
    const YamlNode root = parse_json(text, "x.json");
    ASSERT_EQ(root.kind, YamlKind::kMapping);
    EXPECT_EQ(root.place.column, 1);
    ASSERT_EQ(root.entries.size(), 3U);
    EXPECT_EQ(root.entries[0].key, "a\"}");
    const std::vector<YamlNode>& list = root.entries[0].value.items;
    ASSERT_EQ(list.size(), 4U);
    EXPECT_EQ(list[0].text, "1.50");
    EXPECT_EQ(list[1].text, "-2e3");
    EXPECT_EQ(list[1].place.column, 17);
    EXPECT_EQ(list[2].text, "true");
    EXPECT_FALSE(list[2].quoted);
    EXPECT_EQ(list[3].kind, YamlKind::kNull);
    EXPECT_EQ(list[3].place.column, 28);
    EXPECT_EQ(root.entries[1].key, "é😀");
    EXPECT_EQ(root.entries[1].place.line, 2);
    EXPECT_EQ(root.entries[1].place.column, 2);
    const YamlEntry& inner = root.entries[1].value.entries.at(0);
    EXPECT_EQ(inner.value.text, "é\\");
    EXPECT_TRUE(inner.value.quoted);
    EXPECT_EQ(inner.value.place.column, 12);
    EXPECT_EQ(root.entries[2].place.column, 24);
    EXPECT_EQ(root.entries[2].value.kind, YamlKind::kSequence);
}

// ---- From a scenario
// -------------------------------------------------------------------------------------------------

class HfConfigFiles : public testing::Test {
protected:
    void SetUp() override {
        for (const char* sub : {"architectures", "models/Llama 3 8B"})
            std::filesystem::create_directories(folder_ / sub);
    }

    void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }

    Scenario read(const std::string& model) {
        return parse_scenario("model: " + model +
                                  "\ncluster: tiny\ncalibration: tiny\nsequence: 16 Ki tokens\n"
                                  "policy: {sp: {degree: 2}, pp: 2, n: 8}\n",
                              "mine.yaml", folder_);
    }

    std::string message(const std::string& model) {
        try {
            read(model);
            return "accepted";
        } catch (const InputError& error) {
            return error.what();
        }
    }

    const TemporaryFolder temporary_;
    const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(HfConfigFiles, AreFoundByPath) {
    write("models/Llama 3 8B/config.json", golden("llama-3-8b"));
    write("qwen.json", golden("qwen2-7b"));
    write("architectures/mistral.json", golden("mistral-7b-v0.2"));
    const Scenario llama = read("models/Llama 3 8B/config.json");
    EXPECT_EQ(llama.model.name, "Llama-3-8B");  // the folder's name, as a name
    EXPECT_EQ(llama.model.ffn, 14336);
    EXPECT_EQ(read("qwen.json").model.name, "qwen");
    EXPECT_EQ(read("architectures/mistral.json").model.name, "mistral");
    EXPECT_EQ(read("mistral.json").model.vocabulary, 32000);  // architectures/ may be left out
    EXPECT_EQ(read((folder_ / "qwen.json").string()).fingerprint.size(), llama.fingerprint.size());
}

TEST_F(HfConfigFiles, BesideTheScenarioComesFirst) {
    write("m.json", golden("qwen2-7b"));
    write("architectures/m.json", golden("mistral-7b-v0.2"));
    EXPECT_EQ(read("m.json").model.vocabulary, 152064);
}

TEST_F(HfConfigFiles, AreInTheFingerprint) {
    write("m.json", golden("qwen2-7b"));
    const std::string before = read("m.json").fingerprint;
    EXPECT_EQ(read("m.json").fingerprint, before);
    write("m.json", golden("qwen2-7b") + " ");
    EXPECT_NE(read("m.json").fingerprint, before);
}

TEST_F(HfConfigFiles, MissingOnesAreRefused) {
    const std::string kExpected =
        "but there is no such file from the scenario's folder or in architectures/, expected the path of a Hugging "
        "Face "
        "config.json";
    write("llama.json", golden("llama-3-8b"));
    EXPECT_EQ(message("lama.json"),
              "mine.yaml:1:8: model: got \"lama.json\", " + kExpected + "; did you mean \"llama.json\"?");
    EXPECT_EQ(message("models/none/config.json"),
              "mine.yaml:1:8: model: got \"models/none/config.json\", " + kExpected);
    EXPECT_EQ(message("\"llama\\n.json\""), "mine.yaml:1:8: model: got \"llama .json\", " + kExpected);
    std::filesystem::create_directory(folder_ / "folder.json");
    EXPECT_EQ(message("folder.json"), "mine.yaml:1:8: model: got \"folder.json\", " + kExpected);
}

TEST_F(HfConfigFiles, ErrorsNameTheConfig) {
    write("m.json", "{\n  \"model_type\": \"gpt2\"\n}");
    EXPECT_EQ(message("m.json"), (folder_ / "m.json").string() + ":1:1: missing key \"n_layer\"");
}

}  // namespace
}  // namespace sluice
