#include "schedule/place_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "schedule/buffer_lives.h"
#include "schedule/verify.h"
#include "tests/support/random_program.h"

namespace sluice {
namespace {

Schedule valid_program(std::uint32_t seed) {
    Schedule schedule = random_program(
        seed, {.ranks = 1 + seed % 2, .ops = 4 + seed % 30, .buffers = 2 + seed % 8, .after_percent = seed % 50});
    make_race_free(schedule);
    if (seed % 5 == 0) schedule.buffers[0].persistent = true;
    return schedule;
}

std::string text(const Diagnostics& found) {
    std::string result;
    for (const Diagnostic& d : found) result += d.rule + ": " + d.message + "\n";
    return result;
}

TEST(PlaceMemory, ResultsVerify) {
    std::size_t shared = 0;
    for (std::uint32_t seed = 0; seed < 2000; ++seed) {
        Schedule schedule = valid_program(seed);
        ASSERT_EQ(text(verify(schedule)), "") << "seed " << seed;
        const Placement placement = place_memory(schedule);
        ASSERT_EQ(text(verify(schedule)), "") << "seed " << seed;
        for (const ArenaUse& use : placement.device) ASSERT_GE(use.arena, use.live.bytes);
        Bytes sum{};
        for (const Buffer& buffer : schedule.buffers) {
            ASSERT_EQ(buffer.offset->value % kPlacementAlignment.value, 0);
            if (buffer.space == Space::kDevice && buffer.rank == Rank{0})
                sum += round_up(buffer.bytes, kPlacementAlignment);
        }
        shared += placement.device[0].arena < sum;
    }
    EXPECT_GT(shared, 1000U);
}

// Every edge that placement adds is needed: without it verify objects. And none leads backwards.
TEST(PlaceMemory, EveryAddedEdgeIsNeeded) {
    std::size_t dropped = 0, copies = 0;
    for (std::uint32_t seed = 0; seed < 1500; ++seed) {
        const Schedule original = valid_program(seed);
        Schedule schedule = original;
        place_memory(schedule);
        for (Op& op : schedule.ops) {
            const std::vector<OpId> placed = op.after;
            const std::vector<OpId>& old = original.ops[index(op.id)].after;
            for (const OpId edge : placed) {
                ASSERT_LT(edge, op.id);
                if (std::ranges::find(old, edge) != old.end()) continue;
                std::erase(op.after, edge);
                const Diagnostics found = verify(schedule);
                const bool named = std::ranges::any_of(found, [&](const Diagnostic& d) {
                    return d.op == op.id && (d.rule == "overlap" || d.rule == "reuse-before-copy");
                });
                ASSERT_TRUE(named) << "seed " << seed << " op " << index(op.id) << " after " << index(edge) << "\n"
                                   << text(found);
                copies += found.front().rule == "reuse-before-copy";
                op.after = placed;
                ++dropped;
            }
            for (const OpId edge : old) ASSERT_TRUE(std::ranges::find(placed, edge) != placed.end());
        }
    }
    EXPECT_GT(dropped, 1000U);
    EXPECT_GT(copies, 100U);
}

TEST(PlaceMemory, OnlyOpsThatGainEdgesChange) {
    const Schedule original = valid_program(3);
    Schedule schedule = original;
    place_memory(schedule);
    for (std::size_t i = 0; i < schedule.ops.size(); ++i) {
        if (schedule.ops[i].after.size() == original.ops[i].after.size()) {
            EXPECT_EQ(schedule.ops[i], original.ops[i]);
        } else {
            EXPECT_TRUE(std::ranges::is_sorted(schedule.ops[i].after));
        }
    }
}

TEST(PlaceMemory, SameInputSameResult) {
    for (std::uint32_t seed = 0; seed < 50; ++seed) {
        Schedule a = valid_program(seed), b = valid_program(seed);
        place_memory(a);
        place_memory(b);
        EXPECT_EQ(a, b);
    }
}

// An offload through one staging buffer per subsequence. By hand: every staging buffer ends to live at its copy, listed
// right behind the compute that fills it, so all share bytes 0..511 and every compute waits for the copy before it.
TEST(PlaceMemory, ReuseWaitsForTheCopy) {
    ScheduleBuilder b(1);
    std::vector<OpId> computes, copies;
    for (int i = 0; i < 3; ++i) {
        const BufferId staging = b.device(0, 300_B), slot = b.host(0, 300_B);
        computes.push_back(b.compute(0, {write(staging)}));
        copies.push_back(b.copy_out(0, staging, slot, {computes.back()}));
    }
    const Placement placement = place_memory(b.schedule);
    EXPECT_EQ(placement.device[0].arena, 512_B);
    EXPECT_EQ(placement.device[0].live.bytes, 512_B);
    EXPECT_EQ(placement.host[0].arena, 512_B);  // nobody reloads: a slot is free again after its copy
    EXPECT_EQ(b.schedule.ops[index(computes[1])].after, (std::vector{copies[0]}));
    EXPECT_EQ(b.schedule.ops[index(computes[2])].after, (std::vector{copies[1]}));
    EXPECT_EQ(b.schedule.ops[index(copies[1])].after, (std::vector{computes[1]}));  // its lane orders the host slot
}

TEST(PlaceMemory, UnusedBuffersGetAnOffsetToo) {
    ScheduleBuilder b(1);
    b.device(0, 1_KiB);
    const Placement placement = place_memory(b.schedule);
    EXPECT_EQ(b.schedule.buffers[0].offset, 0_B);
    EXPECT_EQ(placement.device[0].arena, 1_KiB);
    EXPECT_EQ(placement.device[0].live.bytes, 0_B);
}

TEST(PlaceMemory, RefusesPlacedBuffersAndOpsListedTooEarly) {
    ScheduleBuilder b(1);
    b.device(0, 1_KiB);
    b.schedule.buffers[0].offset = 0_B;
    EXPECT_THROW(place_memory(b.schedule), InternalError);
    ScheduleBuilder c(1);
    c.compute(0, {}, {OpId{1}});
    c.lone_collective(0);
    EXPECT_THROW(place_memory(c.schedule), InternalError);
}

// Live bytes at every op, from the definition.
LivePeak peak_by_definition(const Schedule& schedule, Rank rank, Space space) {
    const std::vector<Life> lives = buffer_lives(schedule);
    LivePeak peak;
    std::uint32_t position = 0;
    for (const Op& op : schedule.ops) {
        if (op.rank != rank) continue;
        LivePeak now{op.id, {}, {}};
        for (const Buffer& buffer : schedule.buffers) {
            const Life& life = lives[index(buffer.id)];
            if (buffer.rank != rank || buffer.space != space || position < life.first || position > life.last) continue;
            now.bytes += round_up(buffer.bytes, kPlacementAlignment);
            now.by_kind[static_cast<std::size_t>(buffer.kind)] += round_up(buffer.bytes, kPlacementAlignment);
        }
        if (now.bytes > peak.bytes) peak = now;
        ++position;
    }
    return peak;
}

TEST(LivePeaks, AreTheDefinition) {
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        Schedule schedule = valid_program(seed);
        for (Buffer& buffer : schedule.buffers)
            buffer.kind = static_cast<BufferKind>((index(buffer.id) + seed) % kBufferKinds);
        for (const Space space : {Space::kDevice, Space::kHost}) {
            const std::vector<LivePeak> peaks = live_peaks(schedule, space);
            ASSERT_EQ(peaks.size(), schedule.ranks.size());
            for (std::size_t r = 0; r < peaks.size(); ++r) {
                const LivePeak expected = peak_by_definition(schedule, id_at<Rank>(r), space);
                ASSERT_EQ(peaks[r].op, expected.op) << "seed " << seed;
                ASSERT_EQ(peaks[r].bytes, expected.bytes);
                ASSERT_EQ(peaks[r].by_kind, expected.by_kind);
            }
        }
    }
}

TEST(LivePeaks, PersistentBuffersLiveWithoutOps) {
    ScheduleBuilder b(1);
    b.device(0, 1_KiB);
    b.schedule.buffers[0].persistent = true;
    const LivePeak peak = live_peaks(b.schedule, Space::kDevice)[0];
    EXPECT_EQ(peak.op, kNoOp);
    EXPECT_EQ(peak.bytes, 1_KiB);
}

}  // namespace
}  // namespace sluice
