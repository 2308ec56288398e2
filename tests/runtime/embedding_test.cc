// Token embedding, learned positions, bias and residual: the kernels that add rows.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "runtime/cpu/bias.h"
#include "runtime/cpu/learned_positions.h"
#include "runtime/cpu/residual_add.h"
#include "runtime/cpu/token_embedding.h"
#include "tests/runtime/finite_differences.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;

const std::vector<TokenId> kIds{4, 0, 10, 4, 7, 3, 4};
constexpr std::int64_t kVocabulary = 11, kHidden = 5;

Doubles embed(const std::vector<TokenId>& ids, const Doubles& table) {
    Doubles out;
    for (const TokenId id : ids)
        for (std::size_t c = 0; c < kHidden; ++c) out.push_back(table[static_cast<std::size_t>(id) * kHidden + c]);
    return out;
}

TEST(VocabularyShard, ShardsCoverTheVocabularyOnce) {
    for (const std::int64_t vocabulary : {1, 7, 11, 50257})
        for (const std::int64_t ranks : {1, 2, 3, 4, 16}) {
            std::int64_t next = 0;
            for (std::int64_t r = 0; r < ranks; ++r) {
                const VocabularyShard s = vocabulary_shard(vocabulary, ranks, r);
                EXPECT_EQ(s.first, next);
                EXPECT_LE(s.count, (vocabulary + ranks - 1) / ranks);
                EXPECT_GE(s.count, 0);
                next += s.count;
            }
            EXPECT_EQ(next, vocabulary);
        }
}

TEST(TokenEmbedding, ShardsAddUpToTheWholeTable) {
    const PaddedTensor table = PaddedTensor::random(kVocabulary, kHidden, 1);
    for (const std::int64_t ranks : {1, 2, 4, 16}) {
        PaddedTensor sum = PaddedTensor::filled(std::ssize(kIds), kHidden, 0);
        for (std::int64_t r = 0; r < ranks; ++r) {
            const VocabularyShard shard = vocabulary_shard(kVocabulary, ranks, r);
            PaddedTensor out(std::ssize(kIds), kHidden);
            EXPECT_EQ(
                token_embedding_forward(kIds, shard, table.view().row_range(shard.first, shard.count), out.view()),
                std::nullopt);
            EXPECT_TRUE(out.gaps_intact());
            residual_add(sum.view(), out.view(), sum.view());
        }
        EXPECT_EQ(sum.doubles(), embed(kIds, table.doubles()));
    }
}

TEST(TokenEmbedding, GradientAgreesWithFiniteDifferencesOnEveryShard) {
    const PaddedTensor table = PaddedTensor::random(kVocabulary, kHidden, 1);
    const PaddedTensor dout = PaddedTensor::random(std::ssize(kIds), kHidden, 2);
    const auto loss = [&](const Doubles& v) { return dot(dout.doubles(), embed(kIds, v)); };
    for (const std::int64_t ranks : {1, 3}) {
        const PaddedTensor before = PaddedTensor::random(kVocabulary, kHidden, 3);
        PaddedTensor dtable = before;
        for (std::int64_t r = 0; r < ranks; ++r) {
            const VocabularyShard shard = vocabulary_shard(kVocabulary, ranks, r);
            token_embedding_backward(kIds, shard, dout.view(), dtable.view().row_range(shard.first, shard.count));
        }
        expect_gradient("dtable", loss, table.doubles(), difference(dtable.doubles(), before.doubles()), 1e-6);
        EXPECT_TRUE(dtable.gaps_intact());
    }
}

TEST(TokenEmbedding, BadIdsAreReportedAndNotRead) {
    const PaddedTensor table = PaddedTensor::random(kVocabulary, kHidden, 1);
    for (const TokenId bad : {-1, static_cast<TokenId>(kVocabulary), 2147483647, -2147483647 - 1}) {
        const std::vector<TokenId> ids{3, 1, bad, 2, bad};
        PaddedTensor out(5, kHidden), dtable = PaddedTensor::filled(kVocabulary, kHidden, 0);
        const VocabularyShard whole = vocabulary_shard(kVocabulary, 1, 0);
        EXPECT_EQ(token_embedding_forward(ids, whole, table.view(), out.view()), 2);
        EXPECT_EQ(out.view().row(2)[0], 0.0F);
        EXPECT_EQ(out.view().row(3)[0], table.view().row(2)[0]);
        token_embedding_backward(ids, whole, out.view(), dtable.view());
        EXPECT_EQ(dtable.view().row(10)[0], 0.0F);
    }
}

TEST(LearnedPositions, AddsTheRowsOfTheSubsequenceAndSendsGradientsThere) {
    const PaddedTensor table = PaddedTensor::random(20, kHidden, 1), x = PaddedTensor::random(6, kHidden, 2);
    PaddedTensor y = x, dtable = PaddedTensor::filled(20, kHidden, 0);
    add_learned_positions(Tokens{13}, table.view(), y.view());
    learned_positions_backward(Tokens{13}, x.view(), dtable.view());
    learned_positions_backward(Tokens{13}, x.view(), dtable.view());
    for (std::int64_t t = 0; t < 20; ++t)
        for (std::int64_t c = 0; c < kHidden; ++c) {
            const bool here = t >= 13 && t < 19;
            if (here) {
                EXPECT_EQ(y.view().row(t - 13)[c], x.view().row(t - 13)[c] + table.view().row(t)[c]);
            }
            EXPECT_EQ(dtable.view().row(t)[c], here ? 2 * x.view().row(t - 13)[c] : 0.0F);
        }
    EXPECT_THROW(add_learned_positions(Tokens{15}, table.view(), y.view()), InternalError);
}

TEST(Bias, AddsToEveryRowAndItsGradientIsTheColumnSum) {
    for (const std::int64_t rows : {1, 7, 129, 1031}) {
        const PaddedTensor dy = PaddedTensor::random(rows, 67, 1);
        const std::vector<float> bias = random_floats(67, 2), before = random_floats(67, 3);
        std::vector<float> dbias = before;
        PaddedTensor y = dy;
        add_bias(bias, y.view());
        bias_backward(dy.view(), dbias);
        EXPECT_EQ(y.view().row(rows - 1)[66], dy.view().row(rows - 1)[66] + bias[66]);
        EXPECT_TRUE(y.gaps_intact());
        Doubles want = doubles(before), all = dy.doubles();
        for (std::size_t i = 0; i < all.size(); ++i) want[i % 67] += all[i];
        EXPECT_LT(relative_error(doubles(dbias), want), 1e-6) << rows;
    }
}

TEST(Bias, GradientOfManyRowsDoesNotDrift) {
    // 0.1 added 2^20 times to one float ends 4% off (each addition rounds the same way); by blocks it stays below 5e-4
    const PaddedTensor dy = PaddedTensor::filled(1 << 20, 1, 0.1F);
    std::vector<float> dbias{0};
    bias_backward(dy.view(), dbias);
    EXPECT_NEAR(static_cast<double>(dbias[0]) / (0.1 * (1 << 20)), 1, 5e-4);
    float one_by_one = 0;
    for (int i = 0; i < 1 << 20; ++i) one_by_one += 0.1F;
    EXPECT_GT(std::abs(static_cast<double>(one_by_one) / (0.1 * (1 << 20)) - 1), 5e-3);
}

}  // namespace
}  // namespace sluice
