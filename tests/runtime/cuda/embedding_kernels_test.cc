// Token embeddings on the device against the CPU's, and the sort that its backward needs.
#include <algorithm>
#include <numeric>

#include "runtime/cpu/token_embedding.h"
#include "runtime/cuda/token_embedding.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

// As in text: low ids often, most ids never. Some are of other shards.
std::vector<TokenId> zipf(std::int64_t count, std::int64_t vocabulary) {
    std::mt19937 random(7);
    std::vector<TokenId> ids;
    for (std::int64_t i = 0; i < count; ++i) {
        const double u = static_cast<double>(random() >> 8) / (1 << 24);
        ids.push_back(static_cast<TokenId>(std::pow(static_cast<double>(vocabulary), u)) - 1);
    }
    return ids;
}

TEST(SortTokens, IsAStableSortOfTheShardsTokens) {
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, 50}, {10, 25}, {49, 1}, {50, 0}}) {
        const VocabularyShard shard{50, first, count};
        const std::vector<TokenId> ids = zipf(1000, 50);
        std::vector<std::int32_t> order(ids.size());
        std::iota(order.begin(), order.end(), 0);
        std::erase_if(order, [&](std::int32_t t) { return !shard.holds(ids[static_cast<std::size_t>(t)]); });
        const auto id_of = [&](std::int32_t t) { return ids[static_cast<std::size_t>(t)]; };
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return id_of(a) < id_of(b); });
        const SortedTokens sorted = sort_tokens(ids, shard);
        EXPECT_EQ(sorted.token, order);
        ASSERT_EQ(sorted.begin.size(), sorted.row.size() + 1);
        EXPECT_EQ(sorted.begin.front(), 0);
        EXPECT_EQ(sorted.begin.back(), std::ssize(order));
        EXPECT_TRUE(std::is_sorted(sorted.row.begin(), sorted.row.end()));
        for (std::size_t r = 0; r < sorted.row.size(); ++r) {
            ASSERT_LT(sorted.begin[r], sorted.begin[r + 1]);
            for (auto i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i)
                EXPECT_EQ(id_of(sorted.token[static_cast<std::size_t>(i)]) - shard.first, sorted.row[r]);
        }
    }
}

TEST(SortTokens, LeavesOutIdsThatAreNone) {
    const std::vector<TokenId> ids{-1, 3, 4, 5, 3};
    const SortedTokens sorted = sort_tokens(ids, {5, 0, 5});
    EXPECT_EQ(sorted.token, (std::vector<std::int32_t>{1, 4, 2}));
    EXPECT_EQ(sorted.row, (std::vector<std::int32_t>{3, 4}));
    EXPECT_EQ(sorted.begin, (std::vector<std::int32_t>{0, 2, 3}));
}

class EmbeddingKernels : public LibraryOnDevice {};

struct Case {
    std::int64_t tokens, hidden;
    VocabularyShard shard;
};
const Case kCases[] = {{1, 1, {3, 0, 3}},         {100, 7, {20, 5, 9}},
                       {2000, 64, {256, 0, 256}}, {777, 2048, {500, 100, 300}},
                       {600, 3072, {2, 0, 2}},    {64, 5120, {1000, 500, 500}}};

TEST_F(EmbeddingKernels, ForwardTakesRowsOfTheTable) {
    for (const Case& c : kCases)
        for (const Layout& layout : kLayouts) {
            const std::vector<TokenId> ids = zipf(c.tokens, c.shard.vocabulary);
            const DeviceArray<TokenId> device_ids(ids);
            const auto table = random_bf16(c.shard.count, c.hidden, 1, layout);
            const Bf16OnDevice out(c.tokens, c.hidden, layout);
            PaddedTensor want(c.tokens, c.hidden);
            ASSERT_EQ(sluice::token_embedding_forward(ids, c.shard, table.values(), want.view()), std::nullopt);
            token_embedding_forward(nullptr, device_ids.data(), c.shard, table.view(), out.view());
            expect_same(out.download(), want, "embedding");
        }
}

TEST_F(EmbeddingKernels, BackwardAddsEveryTokenAndRepeatsBitByBit) {
    for (const Case& c : kCases)
        for (const Layout& layout : kLayouts) {
            const std::vector<TokenId> ids = zipf(c.tokens, c.shard.vocabulary);
            const SortedTokens sorted = sort_tokens(ids, c.shard);
            if (sorted.row.empty()) continue;
            const DeviceArray<std::int32_t> token(sorted.token), row(sorted.row), begin(sorted.begin);
            const DeviceSortedTokens on_device{token.data(), row.data(), begin.data(), std::ssize(sorted.row)};
            const auto dout = random_bf16(c.tokens, c.hidden, 1, layout);
            Fp32OnDevice dtable(PaddedTensor::random(c.shard.count, c.hidden, 2), layout);
            PaddedTensor want(c.shard.count, c.hidden);
            for (std::int64_t r = 0; r < c.shard.count; ++r)
                std::copy_n(dtable.values().row(r), c.hidden, want.view().row(r));
            sluice::token_embedding_backward(ids, c.shard, dout.values(), want.view());

            token_embedding_backward(nullptr, on_device, dout.view(), dtable.view());
            const PaddedTensor got = dtable.download();
            std::vector<float> got_row(static_cast<std::size_t>(c.hidden)), want_row = got_row;
            for (std::int64_t r = 0; r < c.shard.count; ++r) {
                std::copy_n(got.view().row(r), c.hidden, got_row.begin());
                std::copy_n(std::as_const(want).view().row(r), c.hidden, want_row.begin());
                expect_sums(got_row, want_row, 1e-5, "row of the table");
            }
            dtable.reset();
            token_embedding_backward(nullptr, on_device, dout.view(), dtable.view());
            expect_same(dtable.download(), got, "again");
        }
}

}  // namespace
}  // namespace sluice::cuda
