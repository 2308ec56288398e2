// The memory study: 6 L + 12 MiB from tensor to sequence parallelism, 48 L MiB from keeping gathered inputs to
// gathering them again, and what the study measured.
#include "models/autograd_inventory.h"

#include <gtest/gtest.h>

#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

using enum AutogradSharding;

// T = 2, S = 2048, H = 768, bf16.
Scenario study() {
    Scenario s = small_scenario(2, 1, 1);
    s.model.hidden = 768;
    return s;
}

Subsequence sequences(std::int64_t batch) { return {Tokens{0}, Tokens{2048 * batch}}; }

double mebibytes(Bytes b) { return b / 1_MiB; }

TEST(AutogradInventory, SequenceParallelismSavesSixMebibytesALayerAndTwelve) {
    const Scenario s = study();
    const Bytes block =
        autograd_block_bytes(s, sequences(2), kTensorParallel) - autograd_block_bytes(s, sequences(2), kGathers);
    const Bytes last = autograd_final_norm_bytes(s, sequences(2), kTensorParallel) -
                       autograd_final_norm_bytes(s, sequences(2), kGathers);
    EXPECT_EQ(block, 6_MiB);
    EXPECT_EQ(last, 12_MiB);
    const std::pair<std::int64_t, double> measured[] = {{8, 61.54}, {16, 109.50}, {32, 203.95}, {64, 396.00}};
    for (const auto& [layers, mib] : measured) EXPECT_NEAR(mebibytes(block * layers + last), mib, 2) << layers;
}

TEST(AutogradInventory, GatheringAgainSavesFortyEightMebibytesALayer) {
    const Scenario s = study();
    const Bytes block =
        autograd_block_bytes(s, sequences(4), kGathers) - autograd_block_bytes(s, sequences(4), kGathersAgain);
    EXPECT_EQ(block, 48_MiB);
    const std::pair<std::int64_t, double> measured[] = {
        {2, 95.35}, {4, 190.13}, {8, 383.00}, {16, 768.00}, {32, 1536.69}};
    for (const auto& [layers, mib] : measured) EXPECT_NEAR(mebibytes(block * layers), mib, 2) << layers;
}

}  // namespace
}  // namespace sluice
