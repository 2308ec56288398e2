#include "runtime/cpu/causal_attention.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/runtime/attention_case.h"
#include "tests/runtime/finite_differences.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;

// Lengths 1, 7, below, at and above a tile, primes; heads of 2 to 64 values; grouped queries 8/2.
const AttentionSizes kSizes[] = {{1, 1, 1, 2},    {7, 2, 1, 4},   {7, 8, 2, 64},  {128, 1, 1, 8},
                                 {129, 8, 2, 16}, {131, 2, 2, 3}, {257, 4, 2, 8}, {383, 2, 1, 64}};
constexpr std::int64_t kPrefixes[] = {0, 1, 5, 127, 128, 130};

TEST(CausalAttention, ForwardAgreesWithDoubleAfterAnyPrefix) {
    for (const AttentionSizes& s : kSizes)
        for (const std::int64_t begin : kPrefixes) {
            if (begin >= s.tokens) continue;
            AttentionCase a(s);
            a.forward(begin, s.tokens - begin);
            Doubles q = a.q.doubles(), got = a.out.doubles();
            const auto skip = static_cast<std::ptrdiff_t>(begin * s.heads * s.head_dim);
            q.erase(q.begin(), q.begin() + skip);
            got.erase(got.begin(), got.begin() + skip);
            // scores of up to 2 sqrt(d) carry d roundings into the exponent: 1e-6 is 17 units of 2^-24
            EXPECT_LT(relative_error(got, reference_attention(s, begin, q, a.k.doubles(), a.v.doubles())), 1e-6)
                << s.text() << " from " << begin;
            EXPECT_TRUE(a.out.gaps_intact());
        }
}

TEST(CausalAttention, LogSumExpIsThatOfTheScaledScores) {
    AttentionCase a({7, 2, 1, 4});
    a.forward(0, 7);
    for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t t = 0; t < 7; ++t) {
            double sum = 0;
            for (std::int64_t key = 0; key <= t; ++key) {
                double score = 0;
                for (std::int64_t c = 0; c < 4; ++c)
                    score +=
                        static_cast<double>(a.q.view().row(t)[h * 4 + c]) * static_cast<double>(a.k.view().row(key)[c]);
                sum += std::exp(score / 2);
            }
            EXPECT_NEAR(static_cast<double>(a.log_sum_exp[static_cast<std::size_t>(h * 7 + t)]), std::log(sum), 1e-6);
        }
}

TEST(CausalAttention, GradientsAgreeWithFiniteDifferencesAfterAnyPrefix) {
    for (const AttentionSizes& s : kSizes)
        for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{5}, std::int64_t{127}}) {
            if (begin >= s.tokens || s.tokens > 257) continue;
            AttentionCase a(s);
            a.dk = PaddedTensor::random(s.tokens, s.kv_heads * s.head_dim, 5);  // accumulators are added to
            a.dv = PaddedTensor::random(s.tokens, s.kv_heads * s.head_dim, 6);
            const Doubles dk = a.dk.doubles(), dv = a.dv.doubles();
            a.forward(begin, s.tokens - begin);
            a.backward(begin, s.tokens - begin);
            const auto tail = [&](const PaddedTensor& t) {
                Doubles all = t.doubles();
                all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin * s.heads * s.head_dim));
                return all;
            };
            const Doubles q = tail(a.q), k = a.k.doubles(), v = a.v.doubles(), g = tail(a.dout);
            const auto loss = [&](const Doubles& q1, const Doubles& k1, const Doubles& v1) {
                return dot(g, reference_attention(s, begin, q1, k1, v1));
            };
            const std::string what = s.text() + " from " + std::to_string(begin);
            expect_gradient(
                "dq " + what, [&](const Doubles& x) { return loss(x, k, v); }, q, tail(a.dq), 5e-6);
            expect_gradient(
                "dk " + what, [&](const Doubles& x) { return loss(q, x, v); }, k, difference(a.dk.doubles(), dk), 5e-6);
            expect_gradient(
                "dv " + what, [&](const Doubles& x) { return loss(q, k, x); }, v, difference(a.dv.doubles(), dv), 5e-6);
            EXPECT_TRUE(a.dq.gaps_intact() && a.dk.gaps_intact() && a.dv.gaps_intact());
        }
}

// Pieces and the whole compute the same sums of the same terms in another order (other tiles of queries, other shapes
// of products), so they differ by roundings of 2^-24 that do not grow with N: 2e-6 of the largest value is 34 of them.
TEST(CausalAttention, PiecesEqualTheWholeToRounding) {
    const AttentionSizes s{383, 8, 2, 16};
    AttentionCase whole(s);
    whole.run({383});
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{200, 183},
                                                     {128, 128, 127},
                                                     {1, 382},
                                                     {382, 1},
                                                     {129, 7, 53, 100, 1, 37, 56},
                                                     std::vector<std::int64_t>(383, 1)}) {
        AttentionCase pieces(s);
        pieces.run(lengths);
        EXPECT_LT(relative_error(pieces.out.doubles(), whole.out.doubles()), 2e-6) << lengths.size();
        EXPECT_LT(relative_error(pieces.dq.doubles(), whole.dq.doubles()), 2e-6) << lengths.size();
        EXPECT_LT(relative_error(pieces.dk.doubles(), whole.dk.doubles()), 2e-6) << lengths.size();
        EXPECT_LT(relative_error(pieces.dv.doubles(), whole.dv.doubles()), 2e-6) << lengths.size();
    }
}

TEST(CausalAttention, ShardsOfHeadsEqualAllHeads) {
    const AttentionSizes s{131, 8, 2, 16};
    AttentionCase all(s);
    all.run({70, 61});
    for (std::int64_t rank = 0; rank < 2; ++rank) {
        AttentionCase shard({131, 4, 1, 16});
        const auto copy = [&](const PaddedTensor& from, PaddedTensor& to) {
            for (std::int64_t t = 0; t < s.tokens; ++t)
                std::copy_n(from.view().row(t) + rank * to.columns(), to.columns(), to.view().row(t));
        };
        copy(all.q, shard.q), copy(all.k, shard.k), copy(all.v, shard.v), copy(all.dout, shard.dout);
        shard.run({70, 61});
        PaddedTensor want(131, 64), want_dk(131, 16);
        copy(all.out, want), copy(all.dk, want_dk);
        EXPECT_EQ(shard.out.doubles(), want.doubles());
        EXPECT_EQ(shard.dk.doubles(), want_dk.doubles());
    }
}

TEST(CausalAttention, SameBitsAgainWhateverResultsAndWorkspacesHeld) {
    const AttentionSizes s{261, 4, 2, 16};
    AttentionCase first(s), second(s);
    second.workspace_fill = 1;
    for (PaddedTensor* t : {&second.out, &second.dq})
        for (std::int64_t r = 0; r < s.tokens; ++r) std::fill_n(t->view().row(r), t->columns(), 1.0F);
    second.log_sum_exp.assign(second.log_sum_exp.size(), 1.0F);
    first.run({131, 130});
    second.run({131, 130});
    EXPECT_EQ(first.out.bits(), second.out.bits());
    EXPECT_EQ(bits(first.log_sum_exp), bits(second.log_sum_exp));
    EXPECT_EQ(first.dq.bits(), second.dq.bits());
    EXPECT_EQ(first.dk.bits(), second.dk.bits());
    EXPECT_EQ(first.dv.bits(), second.dv.bits());
}

TEST(CausalAttention, LaterTokensAreNotSeen) {
    const AttentionSizes s{300, 2, 1, 8};
    AttentionCase a(s), b(s);
    for (std::int64_t t = 200; t < 300; ++t) {  // finite, but other
        std::fill_n(b.k.view().row(t), 8, 3.0F);
        std::fill_n(b.v.view().row(t), 8, -7.0F);
    }
    a.forward(0, 300);
    b.forward(0, 300);
    for (std::int64_t t = 0; t < 300; ++t)
        for (std::int64_t c = 0; c < 16; ++c)
            if (t < 200)
                ASSERT_EQ(a.out.view().row(t)[c], b.out.view().row(t)[c]) << t;
            else
                ASSERT_NE(a.out.view().row(t)[c], b.out.view().row(t)[c]) << t;
}

TEST(CausalAttention, LargeScoresDoNotOverflow) {
    const AttentionSizes s{200, 1, 1, 16};
    AttentionCase a(s, 4000);  // scores of some thousands: weights are 0 or 1
    a.run({200});
    const Doubles want = reference_attention(s, 0, a.q.doubles(), a.k.doubles(), a.v.doubles());
    // a score of 2^12 is rounded to 2^-12, its weight likewise
    EXPECT_LT(relative_error(a.out.doubles(), want), 5e-3);
    EXPECT_TRUE(std::isfinite(dot(a.dk.doubles(), a.dk.doubles())));
}

TEST(CausalAttention, NanInOneHeadIsKeptAndStaysThere) {
    AttentionCase a({140, 2, 2, 4});
    a.q.view().row(3)[0] = kPoison;
    a.forward(0, 140);
    EXPECT_TRUE(std::isnan(a.out.view().row(3)[0]));
    EXPECT_TRUE(std::isnan(a.log_sum_exp[3]));
    EXPECT_TRUE(std::isfinite(a.out.view().row(4)[0]));
    EXPECT_TRUE(std::isfinite(a.out.view().row(3)[4]));
}

TEST(CausalAttention, WorkspaceDoesNotGrowWithTheSequenceAndIsChecked) {
    const AttentionCase a({4, 1, 1, 2});
    EXPECT_EQ(attention_forward_workspace(a.shape(0, 128)), attention_forward_workspace(a.shape(1 << 22, 1 << 22)));
    EXPECT_EQ(attention_backward_workspace(a.shape(0, 1)), Bytes{(2 * 1 * 1 + 1) * 4});
    AttentionCase b({4, 1, 1, 2});
    std::vector<float> small(4 * 4 + 2 * 4 - 1);
    EXPECT_THROW(attention_forward(b.shape(0, 4), b.operands(0, 4), {b.out.view(), b.log_sum_exp}, small),
                 InternalError);
}

}  // namespace
}  // namespace sluice
