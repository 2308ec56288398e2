#include "schedule/memory_timeline.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

using Samples = std::vector<std::pair<double, std::int64_t>>;

Samples samples(const PoolTimeline& pool) {
    Samples all;
    for (const LiveSample& s : pool.samples) all.emplace_back(s.time.value, s.live.value);
    return all;
}

Bytes kind(const PoolTimeline& pool, BufferKind k) { return pool.peak_kinds[static_cast<std::size_t>(k)]; }

TEST(MemoryTimeline, BlocksComeOneByOneAndGoOneByOne) {
    ScheduleBuilder b(1);
    const BufferId kv = b.buffer(0, Space::kDevice, 10_B, 3);
    b.schedule.buffers[0].kind = BufferKind::kKv;
    for (std::uint32_t i = 0; i < 3; ++i) b.compute(0, {{kv, 0, i, AccessMode::kRead}, {kv, i, i, AccessMode::kWrite}});
    for (std::uint32_t i = 3; i-- > 0;) b.compute(0, {{kv, 0, i, AccessMode::kRead}});
    std::vector<OpRun> runs;
    for (int i = 0; i < 6; ++i) runs.push_back({static_cast<double>(i), static_cast<double>(i + 1)});
    const PoolTimeline pool = memory_timelines(b.schedule, runs)[0];
    EXPECT_EQ(samples(pool), (Samples{{0, 10}, {1, 20}, {2, 30}, {4, 20}, {5, 10}, {6, 0}}));
    EXPECT_EQ(pool.peak_time, Seconds{2});
    EXPECT_EQ(pool.peak_op, OpId{2});
    EXPECT_EQ(kind(pool, BufferKind::kKv), 30_B);
}

TEST(MemoryTimeline, ListOrderDoesNotMatterTimeDoes) {
    ScheduleBuilder b(1);
    const BufferId x = b.device(0, 7_B);
    b.compute(0, {read(x)});
    b.copy_in(0, x, x);
    const std::vector<OpRun> runs = {{5, 6}, {1, 9}};
    EXPECT_EQ(samples(memory_timelines(b.schedule, runs)[0]), (Samples{{0, 0}, {1, 7}, {9, 0}}));
}

TEST(MemoryTimeline, PersistentBuffersLiveThroughout) {
    ScheduleBuilder b(1);
    const BufferId weights = b.device(0, 100_B);
    const BufferId unused = b.device(0, 1000_B);
    const BufferId x = b.device(0, 7_B);
    for (const BufferId p : {weights, unused}) b.schedule.buffers[index(p)].persistent = true;
    b.schedule.buffers[index(weights)].kind = BufferKind::kWeights;
    b.schedule.buffers[index(unused)].kind = BufferKind::kOptimizer;
    b.compute(0, {read(weights), write(x)});
    const std::vector<OpRun> runs = {{2, 3}};
    const PoolTimeline pool = memory_timelines(b.schedule, runs)[0];
    EXPECT_EQ(samples(pool), (Samples{{0, 1100}, {2, 1107}, {3, 1100}}));
    EXPECT_EQ(kind(pool, BufferKind::kWeights), 100_B);
    EXPECT_EQ(kind(pool, BufferKind::kOptimizer), 1000_B);
    EXPECT_EQ(kind(pool, BufferKind::kActivation), 7_B);
}

TEST(MemoryTimeline, OnlyPersistentBytesHaveNoPeakOp) {
    ScheduleBuilder b(1);
    b.device(0, 100_B);
    b.schedule.buffers[0].persistent = true;
    const PoolTimeline pool = memory_timelines(b.schedule, {})[0];
    EXPECT_EQ(samples(pool), (Samples{{0, 100}}));
    EXPECT_EQ(pool.peak_op, kNoOp);
}

// One buffer dies at the instant the next is born: they may share bytes, so they count once.
TEST(MemoryTimeline, BytesThatChangeHandsAtOneInstantCountOnce) {
    ScheduleBuilder b(1);
    const BufferId x = b.device(0, 50_B), y = b.device(0, 60_B), never = b.device(0, 999_B), flash = b.device(0, 999_B);
    static_cast<void>(never);
    b.compute(0, {write(x)});
    b.compute(0, {write(y)});
    b.compute(0, {write(flash)});
    const std::vector<OpRun> runs = {{0, 1}, {1, 2}, {2, 2}};
    const PoolTimeline pool = memory_timelines(b.schedule, runs)[0];
    EXPECT_EQ(samples(pool), (Samples{{0, 50}, {1, 60}, {2, 0}}));
    EXPECT_EQ(pool.peak_op, OpId{1});
}

TEST(MemoryTimeline, HostPoolsSumTheirRanks) {
    ScheduleBuilder b(3);
    b.schedule.hosts.push_back({1_GiB});
    b.schedule.ranks[2].host = HostId{1};
    std::vector<OpRun> runs;
    for (std::uint32_t r = 0; r < 3; ++r) {
        const BufferId x = b.device(r, 1_B), y = b.host(r, Bytes{10 * (r + 1)});
        b.schedule.buffers[index(y)].offset = 512_B;
        b.copy_out(r, x, y);
        runs.push_back({0, static_cast<double>(r + 1)});
    }
    const std::vector<PoolTimeline> pools = memory_timelines(b.schedule, runs);
    ASSERT_EQ(pools.size(), 5U);
    EXPECT_TRUE(pools[3].host && pools[4].host);
    EXPECT_EQ(samples(pools[3]), (Samples{{0, 30}, {1, 20}, {2, 0}}));
    EXPECT_EQ(samples(pools[4]), (Samples{{0, 30}, {3, 0}}));
    EXPECT_EQ(pools[3].arena, 522_B + 532_B);
    EXPECT_EQ(pools[4].arena, 542_B);
    EXPECT_EQ(pools[0].arena, 0_B);  // not placed
}

}  // namespace
}  // namespace sluice
