// Parameters of Hugging Face configs against the exact totals of the published checkpoints. Where our shape leaves
// something out (docs/scenarios.md, "Hugging Face configs"), the gap is exactly that.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "models/rank_memory.h"
#include "scenarios/read_hf_config.h"

namespace sluice {
namespace {

TEST(HfParameters, AreThePublishedTotals) {
    const struct {
        std::string file;
        std::int64_t published, left_out;
    } cases[] = {
        {"llama-2-7b", 6'738'415'616, 0},
        {"llama-3-8b", 8'030'261'248, 0},
        {"mistral-7b-v0.2", 7'241'732'096, 0},
        {"mistral-nemo-12b", 12'247'782'400, 0},
        {"qwen2-7b", 7'615'616'512, std::int64_t{28} * (28 + 2 * 4) * 128},  // biases of Q, K and V
        {"qwen3-8b", 8'190'735'360, std::int64_t{36} * 2 * 128},             // norms of Q and K
        {"qwen3-0.6b", 596'049'920, std::int64_t{28} * 2 * 128},
        {"gpt2", 124'439'808, 0},
        {"gpt-neox-20b", 20'554'567'680, 0},
    };
    const std::filesystem::path folder = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/scenarios/hf";
    for (const auto& c : cases) {
        Scenario scenario;
        scenario.model = parse_hf_config(read_file(folder / (c.file + ".json"), 1_MiB), "config.json", c.file);
        scenario.sequence = Tokens{1024};  // rows of the table of learned positions, as in GPT-2
        EXPECT_EQ(model_parameters(scenario), c.published - c.left_out) << c.file;
        EXPECT_LT(static_cast<double>(c.left_out), 1e-3 * static_cast<double>(c.published)) << c.file;
    }
}

}  // namespace
}  // namespace sluice
