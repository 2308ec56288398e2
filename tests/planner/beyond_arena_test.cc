// GPU memory that tokens and pinned bytes take beside the arena, in the decision what fits.
#include <gtest/gtest.h>

#include <stdexcept>

#include "models/device_memory.h"
#include "models/pinned_memory.h"
#include "planner/lower.h"
#include "planner/max_length.h"
#include "schedule/place_memory.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

// One GPU that is too small for all activations, with page tables that are felt: a byte for every 32 pinned.
Scenario short_of_memory(PlacementPolicy placement, Granularity granularity) {
    Scenario s = small_scenario(1, 1, 4);
    s.model.layers = 8;
    s.policy.granularity = granularity;
    s.policy.placement = placement;
    s.sequence = Tokens{32768};
    s.cluster.gpu.memory = 2500_MiB;
    s.cluster.gpu.reserved_per_token = 24_B;
    s.cluster.gpu.reserved_per_pinned_gib = 32_MiB;
    return s;
}

Bytes arena_of(const Schedule& schedule) {
    Bytes end{};
    for (const Buffer& buffer : schedule.buffers)
        if (buffer.space == Space::kDevice)
            end = std::max(end, *buffer.offset + round_up(buffer.bytes, kPlacementAlignment));
    return end;
}

// Everything that a schedule takes fits, and its own capacity says so to the byte.
TEST(BeyondArena, WhatIsPlannedFitsBesidesWhatItPins) {
    for (const PlacementPolicy& placement : {PlacementPolicy{AdaptiveOffload{}}, PlacementPolicy{ThreeWay{}}})
        for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
            const Scenario s = short_of_memory(placement, granularity);
            const Lowered lowered = lower(s);
            ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
            const Bytes pinned = pinned_bytes(lowered.schedule, s.cluster.host.allocator).front();
            if (std::holds_alternative<AdaptiveOffload>(placement)) {
                EXPECT_GT(pinned, 64_MiB) << "page tables of 2 MiB and more";
            }
            const Bytes capacity = lowered.schedule.ranks.front().device_capacity;
            EXPECT_EQ(capacity, s.cluster.gpu.memory - beyond_arena_bytes(s, pinned));
            EXPECT_LE(arena_of(lowered.schedule), capacity);
        }
}

// Moves no more than it takes: a little more than without page tables, for the tables, and not all there is.
TEST(BeyondArena, AdaptiveMovesWhatThePageTablesTakeAndLittleMore) {
    Scenario s = short_of_memory(AdaptiveOffload{}, Granularity::kStage);
    const auto pinned = [&] {
        const Lowered lowered = lower(s);
        if (!lowered.feasible()) throw std::runtime_error(lowered.reasons.front());
        return pinned_bytes(lowered.schedule, s.cluster.host.allocator).front();
    };
    const Bytes with = pinned();
    const Bytes tables = page_table_bytes(s.cluster.gpu, with);
    s.cluster.gpu.reserved_per_pinned_gib = 0_B;
    const Bytes without = pinned();
    EXPECT_GT(with, without);
    EXPECT_LE(with, without + tables * 4 + 32_MiB);
}

TEST(BeyondArena, TokensAloneCanBeTooMuch) {
    Scenario s = short_of_memory(KeepAll{}, Granularity::kStage);
    s.cluster.gpu.memory = 64_GiB;
    const Lowered before = lower(s);
    ASSERT_TRUE(before.feasible());
    s.cluster.gpu.memory = arena_of(before.schedule) + s.cluster.gpu.reserved_per_token * s.sequence.value;
    EXPECT_TRUE(lower(s).feasible());
    s.cluster.gpu.memory -= 1_B;
    EXPECT_FALSE(lower(s).feasible());
}

// A fixed share does not answer to limits: then what it pins decides whether it fits, to the byte.
TEST(BeyondArena, PinnedBytesAloneCanBeTooMuch) {
    Scenario s = short_of_memory(OffloadAll{}, Granularity::kStage);
    s.cluster.gpu.memory = 64_GiB;
    const Lowered before = lower(s);
    ASSERT_TRUE(before.feasible());
    const Bytes pinned = pinned_bytes(before.schedule, s.cluster.host.allocator).front();
    ASSERT_GT(page_table_bytes(s.cluster.gpu, pinned), 1_MiB);
    s.cluster.gpu.memory = arena_of(before.schedule) + beyond_arena_bytes(s, pinned);
    EXPECT_TRUE(lower(s).feasible());
    s.cluster.gpu.memory -= 1_B;
    const Lowered refused = lower(s);
    ASSERT_FALSE(refused.feasible());
    EXPECT_NE(refused.reasons.front().find("GPU memory needed"), std::string::npos) << refused.reasons.front();
}

TEST(BeyondArena, TheLongestLengthFitsAndShrinksWithWhatIsTaken) {
    Scenario s = short_of_memory(AdaptiveOffload{}, Granularity::kStage);
    constexpr Tokens kStep{128};
    s.policy.partition.alignment = kStep;
    const auto longest = [&] {
        const MaxLength found = max_length(s);
        EXPECT_TRUE(found.longest.has_value());
        const Scenario& at = found.longest->candidate.scenario;
        EXPECT_TRUE(plan_step(at).feasible());
        Scenario next = at;
        next.sequence += kStep;
        EXPECT_FALSE(plan_step(next).feasible());
        return at.sequence;
    };
    const Tokens with = longest();
    s.cluster.gpu.reserved_per_pinned_gib = 0_B;
    const Tokens without = longest();
    EXPECT_LT(with, without);
    s.cluster.gpu.reserved_per_token = 0_B;
    EXPECT_LE(without, longest());
}

}  // namespace
}  // namespace sluice
