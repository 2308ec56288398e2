#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/local_ranks.h"
#include "runtime/rank_arenas.h"
#include "tests/runtime/toy_step.h"

namespace sluice {
namespace {

TEST(Arena, HoldsWhatWasAskedForAligned) {
    for (const std::int64_t bytes : {1LL, 63LL, 64LL, 4096LL, 4097LL, 1000000LL}) {
        Arena arena(Bytes{bytes}, "test arena");
        ASSERT_EQ(arena.bytes().size(), static_cast<std::size_t>(bytes));
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.bytes().data()) % 64, 0U);
        for (const std::byte b : arena.bytes()) ASSERT_EQ(b, std::byte{0});
        std::memset(arena.bytes().data(), 1, arena.bytes().size());
    }
    EXPECT_TRUE(Arena(0_B, "empty arena").bytes().empty());
    EXPECT_THROW(Arena(-1_B, "negative arena"), InternalError);
}

TEST(Arena, SpansSurviveMoves) {
    Arena arena(100_B, "test arena");
    const std::span<std::byte> bytes = arena.bytes();
    Arena other = std::move(arena);
    EXPECT_EQ(other.bytes().data(), bytes.data());
    bytes[99] = std::byte{7};
    arena = std::move(other);
    EXPECT_EQ(arena.bytes()[99], std::byte{7});
}

TEST(ArenaDeathTest, OverrunsStopAtTheGuardPages) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const std::int64_t bytes : {64LL, 4096LL, 100000LL}) {
        EXPECT_DEATH(
            {
                Arena arena(Bytes{bytes}, "test arena");
                *static_cast<volatile std::byte*>(arena.bytes().data() + round_up(Bytes{bytes}, 64_B).value) = {};
            },
            "");
        EXPECT_DEATH(
            {
                Arena arena(Bytes{bytes}, "test arena");
                *static_cast<volatile std::byte*>(arena.bytes().data() - 4096) = {};
            },
            "");
    }
}

TEST(Arena, Poison) {
    std::vector<std::byte> bytes(11, std::byte{1});
    poison(std::span(bytes).first(10));
    float value = 0;
    std::memcpy(&value, bytes.data(), sizeof(value));
    EXPECT_TRUE(is_poison(value));
    EXPECT_TRUE(is_poison(value + 1));
    EXPECT_TRUE(is_poison(-value));
    std::memcpy(&value, bytes.data() + 4, sizeof(value));
    EXPECT_TRUE(is_poison(value));
    EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + 8, 2), 0);
    EXPECT_EQ(bytes[10], std::byte{1});
    EXPECT_FALSE(is_poison(1.0F));
    EXPECT_FALSE(is_poison(std::numeric_limits<float>::quiet_NaN()));
    EXPECT_FALSE(is_poison(std::numeric_limits<float>::signaling_NaN()));
}

constexpr std::string_view kBuffers = R"(sluice-schedule 1
host h0 1 MiB
rank r0 h0 1 MiB
rank r1 h0 1 MiB
buffer b0 r0 device weights 64 B @64 B persistent
buffer b1 r1 device activation 64 B @0 B
buffer b2 r0 device kv 96 B @512 B blocks 32 B 48 B 16 B
buffer b3 r0 host staging 128 B @0 B
end
)";

TEST(RankArenas, FindsBuffersAndBlocks) {
    const Schedule schedule = parse(kBuffers);
    const std::vector<RankArenas> arenas = map_arenas(schedule, all_ranks(schedule));
    const RankArenas& rank = arenas[0];
    ASSERT_EQ(arenas.size(), 2U);
    EXPECT_EQ(rank.arena(Space::kDevice).size(), 608U);
    EXPECT_EQ(rank.arena(Space::kHost).size(), 128U);
    EXPECT_EQ(arenas[1].arena(Space::kDevice).size(), 64U);
    EXPECT_EQ(arenas[1].arena(Space::kHost).size(), 0U);
    const std::byte* const device = rank.arena(Space::kDevice).data();
    const auto place = [&](std::span<std::byte> span) { return std::pair(span.data() - device, span.size()); };
    EXPECT_EQ(place(rank.span_of(BufferId{0})), std::pair(std::ptrdiff_t{64}, std::size_t{64}));
    EXPECT_EQ(place(rank.span_of(BufferId{0}, 0, 0)), std::pair(std::ptrdiff_t{64}, std::size_t{64}));
    EXPECT_EQ(place(rank.span_of(BufferId{2})), std::pair(std::ptrdiff_t{512}, std::size_t{96}));
    EXPECT_EQ(place(rank.span_of(BufferId{2}, 1, 1)), std::pair(std::ptrdiff_t{544}, std::size_t{48}));
    EXPECT_EQ(place(rank.span_of({BufferId{2}, 1, 2, AccessMode::kRead})),
              std::pair(std::ptrdiff_t{544}, std::size_t{64}));
    EXPECT_EQ(rank.span_of(BufferId{3}).data(), rank.arena(Space::kHost).data());
    EXPECT_EQ(arenas[1].span_of(BufferId{1}).data(), arenas[1].arena(Space::kDevice).data());
}

TEST(RankArenas, PoisonsAllButPersistentBuffers) {
    const Schedule schedule = parse(kBuffers);
    const RankArenas arenas(schedule, Rank{0});
    arenas.poison_all();
    const std::span<float> device = as_floats(arenas.arena(Space::kDevice));
    for (std::size_t i = 0; i < device.size(); ++i) EXPECT_EQ(is_poison(device[i]), i < 16 || i >= 32) << i;
    for (const float value : as_floats(arenas.arena(Space::kHost))) EXPECT_TRUE(is_poison(value));
}

TEST(RankArenas, RefusesWhatTheMachineLacks) {
    Schedule schedule = parse(kBuffers);
    schedule.buffers[1].bytes = 1024_GiB * 1024;
    try {
        map_arenas(schedule, all_ranks(schedule));
        ADD_FAILURE() << "mapped a pebibyte";
    } catch (const EnvironmentError& error) {
        const std::string message = error.what();
        EXPECT_EQ(message.find("the arenas of 2 ranks (device "), 0U) << message;
        EXPECT_NE(message.find(", host 128 B) need "), std::string::npos) << message;
        EXPECT_NE(message.find(" of memory available"), std::string::npos) << message;
    }
}

TEST(RankArenas, FloatsAreWholeAndAligned) {
    std::vector<float> floats(4);
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(floats));
    EXPECT_EQ(as_floats(bytes).size(), 4U);
    EXPECT_THROW(as_floats(bytes.first(6)), InternalError);
    EXPECT_THROW(as_floats(bytes.subspan(2, 8)), InternalError);
}

}  // namespace
}  // namespace sluice
