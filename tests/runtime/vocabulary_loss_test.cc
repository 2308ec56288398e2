#include "runtime/cpu/vocabulary_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/runtime/finite_differences.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;

std::vector<TokenId> some_targets(std::int64_t tokens, std::int64_t vocabulary) {
    std::mt19937 random(5);
    std::vector<TokenId> ids;
    for (std::int64_t t = 0; t < tokens; ++t)
        ids.push_back(static_cast<TokenId>(random() % static_cast<std::uint32_t>(vocabulary)));
    return ids;
}

// Sum over tokens of -ln softmax(logits)[target].
double reference(const Doubles& logits, const std::vector<TokenId>& targets) {
    const std::size_t width = logits.size() / targets.size();
    double losses = 0;
    for (std::size_t t = 0; t < targets.size(); ++t) {
        double largest = -INFINITY, sum = 0;
        for (std::size_t c = 0; c < width; ++c) largest = std::max(largest, logits[t * width + c]);
        for (std::size_t c = 0; c < width; ++c) sum += std::exp(logits[t * width + c] - largest);
        losses += largest + std::log(sum) - logits[t * width + static_cast<std::size_t>(targets[t])];
    }
    return losses;
}

struct LossRun {
    double losses = 0;
    PaddedTensor gradient;
};

// As ranks and chunks do it: every chunk of tokens on every shard, then combined. `total` scales the gradient.
LossRun run(const PaddedTensor& logits, const std::vector<TokenId>& targets, std::int64_t ranks, std::int64_t chunk,
            std::int64_t total) {
    LossRun result{0, logits};
    for (std::int64_t begin = 0; begin < logits.rows(); begin += chunk) {
        const std::int64_t tokens = std::min(chunk, logits.rows() - begin);
        const auto count = static_cast<std::size_t>(tokens);
        const auto ids = std::span(targets).subspan(static_cast<std::size_t>(begin), count);
        std::vector<LossPartial> partials(count * static_cast<std::size_t>(ranks), {kPoison, kPoison, kPoison});
        std::vector<float> log_sum_exp = poisoned(count);
        const auto shard_of = [&](std::int64_t r) { return vocabulary_shard(logits.columns(), ranks, r); };
        const auto columns = [&](std::int64_t r) {
            return result.gradient.view().row_range(begin, tokens).column_range(shard_of(r).first, shard_of(r).count);
        };
        for (std::int64_t r = 0; r < ranks; ++r)
            EXPECT_EQ(loss_partials(columns(r), ids, shard_of(r),
                                    std::span(partials).subspan(static_cast<std::size_t>(r) * count, count)),
                      std::nullopt);
        result.losses += combine_loss_partials(partials, ranks, log_sum_exp);
        for (std::int64_t r = 0; r < ranks; ++r)
            logits_gradient(log_sum_exp, ids, shard_of(r), Tokens{total}, columns(r));
    }
    return result;
}

struct Case {
    std::int64_t tokens, vocabulary, ranks, chunk;
};
constexpr Case kCases[] = {{1, 2, 1, 1},   {7, 11, 1, 7},     {7, 11, 3, 2},
                           {7, 11, 16, 7}, {129, 257, 4, 50}, {13, 1031, 2, 5}};

TEST(VocabularyLoss, LossAndGradientAgreeWithDoubleOnAnyShardsAndChunks) {
    for (const Case& c : kCases) {
        const PaddedTensor logits = PaddedTensor::random(c.tokens, c.vocabulary, 1, 6);
        const auto targets = some_targets(c.tokens, c.vocabulary);
        const std::int64_t total = 3 * c.tokens + 1;  // the chunks are a part of a longer sequence
        const LossRun got = run(logits, targets, c.ranks, c.chunk, total);
        // a token's loss is the difference of two numbers of up to 6 + ln(vocabulary), each rounded
        EXPECT_NEAR(got.losses, reference(logits.doubles(), targets), 1e-6 * static_cast<double>(c.tokens));
        const auto loss = [&](const Doubles& v) { return reference(v, targets) / static_cast<double>(total); };
        expect_gradient("dlogits", loss, logits.doubles(), got.gradient.doubles(), 3e-6);
        EXPECT_TRUE(got.gradient.gaps_intact());
    }
}

TEST(VocabularyLoss, ShardsAndChunksDifferByRoundingOnly) {
    const PaddedTensor logits = PaddedTensor::random(129, 257, 1, 6);
    const auto targets = some_targets(129, 257);
    const LossRun whole = run(logits, targets, 1, 129, 129), cut = run(logits, targets, 4, 17, 129);
    EXPECT_NEAR(whole.losses, cut.losses, 1e-6 * whole.losses);
    EXPECT_LT(relative_error(cut.gradient.doubles(), whole.gradient.doubles()), 2e-6);
    // chunks alone change no bit of the gradient
    EXPECT_EQ(run(logits, targets, 4, 129, 129).gradient.bits(), cut.gradient.bits());
}

TEST(VocabularyLoss, UniformLogitsCostTheLogOfTheVocabulary) {
    const PaddedTensor logits = PaddedTensor::filled(5, 50257, 1000);
    const LossRun got = run(logits, some_targets(5, 50257), 3, 5, 5);
    EXPECT_NEAR(got.losses / 5, std::log(50257.0), 1e-5);
}

TEST(VocabularyLoss, ExtremeLogitsStayFinite) {
    PaddedTensor logits = PaddedTensor::filled(2, 8, -3e38F);
    logits.view().row(0)[1] = 3e38F;
    logits.view().row(1)[6] = 3e38F;
    const LossRun got = run(logits, {1, 6}, 2, 2, 2);
    EXPECT_EQ(got.losses, 0.0);
    EXPECT_EQ(dot(got.gradient.doubles(), got.gradient.doubles()), 0.0);
}

TEST(VocabularyLoss, BadTargetsAreReportedAndNotRead) {
    PaddedTensor logits = PaddedTensor::random(3, 6, 1);
    std::vector<LossPartial> partials(3);
    for (const TokenId bad : {-1, 6, 2147483647, -2147483647 - 1}) {
        const std::vector<TokenId> targets{2, bad, 9};
        EXPECT_EQ(loss_partials(logits.view(), targets, {6, 0, 6}, partials), 1);
        EXPECT_EQ(partials[1].target, 0.0F);
    }
    // of another shard is not bad
    EXPECT_EQ(loss_partials(logits.view(), std::vector<TokenId>{2, 6, 9}, {12, 0, 6}, partials), std::nullopt);
}

TEST(VocabularyLoss, NanLogitShowsInTheLoss) {
    PaddedTensor logits = PaddedTensor::random(3, 6, 1);
    logits.view().row(1)[4] = kPoison;
    EXPECT_TRUE(std::isnan(run(logits, {0, 1, 2}, 2, 3, 3).losses));
}

}  // namespace
}  // namespace sluice
