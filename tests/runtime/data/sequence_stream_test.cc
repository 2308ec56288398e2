#include "runtime/data/sequence_stream.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/data/open_tokens.h"
#include "runtime/data/shuffled_index.h"
#include "tests/runtime/data/token_files.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

struct SequenceStreamTest : testing::Test {
    TemporaryFolder folder;
    // Token i has the id i.
    TokenSource counting(std::int64_t tokens) const {
        std::vector<std::int64_t> ids;
        for (std::int64_t i = 0; i < tokens; ++i) ids.push_back(i);
        const std::string file =
            llmc_header(20240520, 1, static_cast<std::int32_t>(tokens)) + stored_tokens<std::uint16_t>(ids);
        return open_tokens(write_bytes(folder / "tokens.bin", file), 65536);
    }
};

std::vector<std::int32_t> read(const SequenceStream& stream, std::int64_t sequence, std::int64_t first,
                               std::size_t count) {
    std::vector<std::int32_t> ids(count);
    stream.read(sequence, Tokens{first}, ids);
    return ids;
}

TEST_F(SequenceStreamTest, InputsAndTargetsAreOneApart) {
    const SequenceStream stream(counting(14), {Tokens{4}, {}});
    EXPECT_EQ(read(stream, 1, 0, 4), (std::vector<std::int32_t>{4, 5, 6, 7}));
    EXPECT_EQ(read(stream, 1, 1, 4), (std::vector<std::int32_t>{5, 6, 7, 8}));
    EXPECT_EQ(read(stream, 2, 3, 2), (std::vector<std::int32_t>{11, 12}));
    EXPECT_THROW(read(stream, 0, 1, 5), InternalError);
    EXPECT_THROW(read(stream, -1, 0, 1), InternalError);
}

// tokens, length, sequences of an epoch: the last target needs a token more.
TEST_F(SequenceStreamTest, AnEpochHasTheWholeSequencesAndThenBeginsAgain) {
    struct Case {
        std::int64_t tokens, length, expected;
    };
    for (const Case& c : std::vector<Case>{{5, 4, 1}, {8, 4, 1}, {9, 4, 2}, {14, 4, 3}, {7, 1, 6}}) {
        const SequenceStream stream(counting(c.tokens), {Tokens{c.length}, {}});
        ASSERT_EQ(stream.sequences_per_epoch(), c.expected);
        for (std::int64_t n = 0; n < 3 * c.expected; ++n)
            EXPECT_EQ(stream.place(n), (SequencePlace{n / c.expected, n % c.expected * c.length}));
    }
}

TEST_F(SequenceStreamTest, RefusesASourceShorterThanASequence) {
    for (const std::int64_t tokens : {0, 1, 4}) {
        try {
            SequenceStream(counting(tokens), {Tokens{4}, {}});
            ADD_FAILURE() << tokens;
        } catch (const InputError& error) {
            EXPECT_EQ(std::string(error.what()),
                      (folder / "tokens.bin") + ": " + std::to_string(tokens) +
                          " tokens, expected at least 5 for one sequence of 4 tokens and the target of its last");
        }
    }
}

TEST_F(SequenceStreamTest, ASeedOrdersEveryEpochAnew) {
    const SequenceStream stream(counting(401), {Tokens{4}, 7}), other(counting(401), {Tokens{4}, 8});
    std::vector<std::vector<std::int64_t>> orders(3);
    for (std::int64_t n = 0; n < 300; ++n) {
        const SequencePlace place = stream.place(n);
        ASSERT_EQ(place.epoch, n / 100);
        orders[static_cast<std::size_t>(place.epoch)].push_back(place.position);
        // A second stream that begins here continues alike: the number is the whole state.
        EXPECT_EQ(SequenceStream(counting(401), {Tokens{4}, 7}).place(n), place);
    }
    for (const auto& order : orders) EXPECT_EQ(std::set(order.begin(), order.end()).size(), 100U);
    EXPECT_NE(orders[0], orders[1]);
    EXPECT_NE(orders[1], orders[2]);
    EXPECT_NE(other.place(0), stream.place(0));
}

TEST(ShuffledIndex, IsAPermutationOfAnyCount) {
    for (std::int64_t count = 1; count < 200; ++count)
        for (const std::uint64_t key : {0ULL, 1ULL, ~0ULL}) {
            std::vector<bool> seen(static_cast<std::size_t>(count), false);
            for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t place = shuffled_index(i, count, key);
                ASSERT_TRUE(place >= 0 && place < count);
                ASSERT_FALSE(seen[static_cast<std::size_t>(place)]);
                seen[static_cast<std::size_t>(place)] = true;
            }
        }
    const std::int64_t most = std::int64_t{1} << 62;
    EXPECT_LT(shuffled_index(most - 1, most, 3), most);
}

// Frozen: a run resumed by another build, or on another machine, must see the same order. Recomputed in Python from the
// description in shuffled_index.h.
TEST(ShuffledIndex, KeepsItsOrder) {
    std::vector<std::int64_t> order;
    for (std::int64_t i = 0; i < 10; ++i) order.push_back(shuffled_index(i, 10, 42));
    EXPECT_EQ(order, (std::vector<std::int64_t>{4, 6, 1, 3, 0, 9, 5, 8, 7, 2}));
    EXPECT_EQ(mix_bits(0), 0xe220a8397b1dcdafULL);  // the first output of splitmix64.c with seed 0
}

// Where each of 1,000 items goes on average over many keys: uniform within a few standard deviations.
TEST(ShuffledIndex, MixesWell) {
    constexpr std::int64_t kCount = 1000, kKeys = 400;
    for (const std::int64_t item : {0, 1, 499, 999}) {
        double sum = 0;
        for (std::uint64_t key = 0; key < kKeys; ++key)
            sum += static_cast<double>(shuffled_index(item, kCount, mix_bits(key)));
        EXPECT_NEAR(sum / kKeys, 499.5, 5 * 288.7 / 20) << item;  // sd of one is 288.7, of the mean a 20th
    }
}

TEST(SequenceOfStep, NumbersTheBatchesOneAfterAnother) {
    EXPECT_EQ(sequence_of_step(0, 4, 0), 0);
    EXPECT_EQ(sequence_of_step(3, 4, 2), 14);
}

}  // namespace
}  // namespace sluice
