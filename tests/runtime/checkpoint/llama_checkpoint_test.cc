// A tiny Llama under its Hugging Face names, checked by a reader that shares no code with ours.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/checkpoint/write_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

constexpr std::int64_t kVocabulary = 32, kHidden = 8, kHeads = 4, kKvHeads = 2, kFfn = 12, kLayers = 2;

struct Parameter {
    std::string name;
    std::vector<std::int64_t> shape;
};

std::vector<Parameter> parameters() {
    constexpr std::int64_t kKv = kHidden / kHeads * kKvHeads;
    std::vector<Parameter> all{{"model.embed_tokens.weight", {kVocabulary, kHidden}}};
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
        const std::string prefix = fmt::format("model.layers.{}.", layer);
        all.push_back({prefix + "input_layernorm.weight", {kHidden}});
        all.push_back({prefix + "self_attn.q_proj.weight", {kHidden, kHidden}});
        all.push_back({prefix + "self_attn.k_proj.weight", {kKv, kHidden}});
        all.push_back({prefix + "self_attn.v_proj.weight", {kKv, kHidden}});
        all.push_back({prefix + "self_attn.o_proj.weight", {kHidden, kHidden}});
        all.push_back({prefix + "post_attention_layernorm.weight", {kHidden}});
        all.push_back({prefix + "mlp.gate_proj.weight", {kFfn, kHidden}});
        all.push_back({prefix + "mlp.up_proj.weight", {kFfn, kHidden}});
        all.push_back({prefix + "mlp.down_proj.weight", {kHidden, kFfn}});
    }
    all.push_back({"model.norm.weight", {kHidden}});
    all.push_back({"lm_head.weight", {kVocabulary, kHidden}});
    return all;
}

TensorToWrite tensor_of(const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto salt = static_cast<std::int64_t>(crc32_of(std::as_bytes(std::span(name))) % 1000);
    return float_tensor(name, shape, [salt](std::int64_t first, std::span<float> values) {
        for (float& value : values) value = static_cast<float>(salt + first++);
    });
}

CheckpointContent tiny_llama() {
    CheckpointContent content;
    content.state = {100, 400, "text.txt", "0123456789abcdef", "plan"};
    content.config = fmt::format(
        R"({{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": {}, "intermediate_size": {}, )"
        R"("num_attention_heads": {}, "num_key_value_heads": {}, "num_hidden_layers": {}, "vocab_size": {}, )"
        R"("hidden_act": "silu", "max_position_embeddings": 64, "rms_norm_eps": 1e-05, "tie_word_embeddings": false}})",
        kHidden, kFfn, kHeads, kKvHeads, kLayers, kVocabulary);
    content.optimizer.resize(2);
    for (const Parameter& p : parameters()) {
        content.model.push_back(tensor_of(p.name, p.shape));
        auto& shard = content.optimizer[p.name.find("layers.1") == p.name.npos ? 0 : 1];
        shard.push_back(tensor_of(first_moment_name(p.name), p.shape));
        shard.push_back(tensor_of(second_moment_name(p.name), p.shape));
    }
    return content;
}

// The exit code and the output of the reader.
std::pair<int, std::string> read_with_python(const TemporaryFolder& folder, const std::filesystem::path& checkpoint) {
    const std::string output = folder / "output";
    const std::string command =
        fmt::format("'{}' '{}/tests/runtime/checkpoint/check_llama_checkpoint.py' '{}' > '{}' 2>&1", SLUICE_PYTHON,
                    SLUICE_SOURCE_DIR, checkpoint.string(), output);
    const int status = std::system(command.c_str());
    std::ifstream in(output);
    return {status, std::string(std::istreambuf_iterator<char>(in), {})};
}

TEST(LlamaCheckpoint, IsReadByAnotherReader) {
    const TemporaryFolder folder;
    const auto checkpoint = write_checkpoint(folder / "checkpoints", tiny_llama(), {});
    const auto [status, output] = read_with_python(folder, checkpoint);
    EXPECT_EQ(status, 0) << output;
    EXPECT_EQ(output, "21 parameters and 42 moments\n");
}

TEST(LlamaCheckpoint, TheOtherReaderSeesWhatIsWrong) {
    const TemporaryFolder folder;
    CheckpointContent wrong_shape = tiny_llama();
    wrong_shape.model[3].shape = {kHidden, kHidden / kHeads * kKvHeads};  // k_proj as [inputs, outputs]
    const auto first = read_with_python(folder, write_checkpoint(folder / "a", wrong_shape, {}));
    EXPECT_NE(first.first, 0);
    EXPECT_EQ(first.second, "model.layers.0.self_attn.k_proj.weight: shape [8, 4], expected [4, 8]\n");
}

}  // namespace
}  // namespace sluice
