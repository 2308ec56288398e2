#include "models/model_flops.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

Scenario shipped(const char* name) {
    return read_scenario(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios" / name);
}

// Hidden 8, 4 heads of 2, MLP of 32: weights 8 x (4 x 8) + 2 x 8 x 32 = 768 per layer, a multiply-add each per token.
Scenario gpt() {
    Scenario s = small_scenario(1, 1, 1);
    s.model = {"gpt", 3,   8, 4, 4, 2, 32, 100, ActivationFunction::kGelu, Norm::kLayerNorm, Positions::kLearned,
               true,  true};
    s.sequence = Tokens{10};
    return s;
}

TEST(ModelFlops, LayerByHand) {
    // four tokens after six see 7 + 8 + 9 + 10 = 34 keys, each 4 FLOPs per head and dimension; uncut counts 2 x that
    const Subsequence sub{Tokens{6}, Tokens{4}};
    EXPECT_EQ(layer_forward_flops(gpt(), sub, CausalCount::kExact).value, 2 * 4 * 768 + 4 * 8 * 34);
    EXPECT_EQ(layer_forward_flops(gpt(), sub, CausalCount::kUncut).value, 2 * 4 * 768 + 2 * 4 * 8 * 34);
}

TEST(ModelFlops, SwigluAndGroupedQueriesByHand) {
    Scenario s = gpt();
    s.model.activation = ActivationFunction::kSwiglu;
    s.model.kv_heads = 2;
    // Q and O 8 x 8, K and V 8 x 4, three MLP matrices of 8 x 32
    const double weights = 2 * 64 + 2 * 32 + 3 * 256;
    EXPECT_EQ(layer_forward_flops(s, {Tokens{0}, Tokens{1}}, CausalCount::kExact).value, 2 * weights + 4 * 8);
}

TEST(ModelFlops, StepByHand) {
    // 10 tokens see 55 keys; three layers and a head of 8 x 100; backward twice forward; two sequences
    Scenario s = gpt();
    s.batch = 2;
    const double forward = 3 * (2 * 10 * 768 + 4 * 8 * 55) + 2 * 10 * 8 * 100;
    EXPECT_DOUBLE_EQ(step_model_flops(s).value, 2 * 3 * forward);
}

TEST(ModelFlops, SubsequencesSumToTheSequence) {
    const Scenario s = gpt();
    for (const CausalCount count : {CausalCount::kExact, CausalCount::kUncut}) {
        double sum = 0;
        std::int64_t begin = 0;
        for (const std::int64_t length : {5, 3, 1, 1}) {
            sum += layer_forward_flops(s, {Tokens{begin}, Tokens{length}}, count).value;
            begin += length;
        }
        EXPECT_DOUBLE_EQ(sum, layer_forward_flops(s, {Tokens{0}, s.sequence}, count).value);
    }
}

TEST(ModelFlops, DegreesDoNotChangeTheModel) {
    Scenario s = shipped("sppo-gpt7b-4m-a100x128.yaml");
    const double before = step_model_flops(s).value;
    s.policy.sp = 1, s.policy.pp = 1, s.policy.n = 1;
    EXPECT_EQ(step_model_flops(s).value, before);
}

// GPT-7B at 4M tokens: 32 layers of 12 H^2 weights and S(S+1)/2 pairs of 4 H FLOPs; head of 50,304 words.
TEST(ModelFlops, HeadlineCase) {
    const double s = 4194304, h = 4096;
    const double dense = 2 * s * 12 * h * h, attention = 4 * h * s * (s + 1) / 2, head = 2 * s * h * 50304;
    EXPECT_NEAR(
        step_model_flops(shipped("sppo-gpt7b-4m-a100x128.yaml")).value / (3 * (32 * (dense + attention) + head)), 1,
        1e-12);
    EXPECT_GT(attention / dense, 40) << "attention decides at this length";
}

}  // namespace
}  // namespace sluice
