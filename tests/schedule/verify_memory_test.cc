// Races, unwritten reads and shared bytes against brute force over reachability.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "schedule/verify.h"
#include "tests/support/random_program.h"
#include "tests/support/reachability.h"

namespace sluice {
namespace {

const std::set<std::string> kRaces{"unordered-access", "reload-before-offload", "backward-before-reload"};
const std::set<std::string> kOverlaps{"overlap", "reuse-before-copy"};

bool any_of(const Diagnostics& found, const std::set<std::string>& rules) {
    return std::ranges::any_of(found, [&](const Diagnostic& d) { return rules.contains(d.rule); });
}

std::set<OpId> ops_with(const Diagnostics& found, const std::string& rule) {
    std::set<OpId> ops;
    for (const Diagnostic& d : found)
        if (d.rule == rule) ops.insert(d.op);
    return ops;
}

// Buffers with an unordered pair of conflicting accesses.
std::set<BufferId> raced_buffers(const Schedule& schedule, const Reachability& before) {
    std::set<BufferId> result;
    for (const Op& a : schedule.ops)
        for (const Op& b : schedule.ops)
            for (const Access& x : a.accesses)
                for (const Access& y : b.accesses)
                    if (a.id < b.id && conflict(x, y) && !before(a.id, b.id) && !before(b.id, a.id))
                        result.insert(x.buffer);
    return result;
}

std::set<BufferId> buffers_with(const Diagnostics& found, const std::set<std::string>& rules) {
    std::set<BufferId> buffers;
    for (const Diagnostic& d : found)
        if (rules.contains(d.rule)) buffers.insert(d.buffer);
    return buffers;
}

// Is some block of the access written by no op that comes before the reader or races with it?
bool unwritten(const Schedule& schedule, const Reachability& before, const Op& reader, const Access& access) {
    for (std::uint32_t block = access.first_block; block <= access.last_block; ++block) {
        bool written = false;
        for (const Op& op : schedule.ops)
            for (const Access& other : op.accesses) {
                if (other.buffer != access.buffer || other.first_block > block || other.last_block < block) continue;
                if (op.id == reader.id)
                    written |= other.mode == AccessMode::kWrite;
                else
                    written |= other.mode != AccessMode::kRead && !before(reader.id, op.id);
            }
        if (!written) return true;
    }
    return false;
}

// Readers whose access races are reported as that, so only readers without a race of their own are compared.
bool races(const Schedule& schedule, const Reachability& before, const Op& op) {
    for (const Op& other : schedule.ops)
        for (const Access& x : op.accesses)
            for (const Access& y : other.accesses)
                if (op.id != other.id && conflict(x, y) && !before(op.id, other.id) && !before(other.id, op.id))
                    return true;
    return false;
}

TEST(VerifyMemory, FindsRacesAndUnwrittenReadsLikeBruteForce) {
    std::size_t raced = 0, clean = 0, unwritten_reads = 0;
    for (std::uint32_t seed = 0; seed < 3000; ++seed) {
        const Schedule schedule = random_program(seed, {.ranks = 1 + seed % 2,
                                                        .ops = 2 + seed % 14,
                                                        .buffers = 1 + seed % 4,
                                                        .after_percent = 40 + seed % 50,
                                                        .forward_references = seed % 4 == 0,
                                                        .blocks_at_most = 1 + seed % 5});
        const Reachability before(schedule);
        if (before.cyclic()) continue;
        const Diagnostics found = verify(schedule);
        const std::set<BufferId> expected = raced_buffers(schedule, before);
        ASSERT_EQ(buffers_with(found, kRaces), expected) << "seed " << seed;
        (expected.empty() ? clean : raced) += 1;
        const std::set<OpId> got = ops_with(found, "read-before-write");
        for (const Op& op : schedule.ops) {
            if (races(schedule, before, op)) continue;
            const bool wanted = std::ranges::any_of(op.accesses, [&](const Access& access) {
                return access.mode != AccessMode::kWrite && unwritten(schedule, before, op, access);
            });
            ASSERT_EQ(got.contains(op.id), wanted) << "seed " << seed << " op " << index(op.id);
            unwritten_reads += wanted;
        }
    }
    EXPECT_GT(raced, 300U);
    EXPECT_GT(clean, 300U);
    EXPECT_GT(unwritten_reads, 300U);
}

// Do the two buffers share bytes without all uses of one coming before all uses of the other?
bool clash(const Schedule& schedule, const Reachability& before, const Buffer& a, const Buffer& b) {
    if (a.rank != b.rank || a.space != b.space) return false;
    if (*a.offset + a.bytes <= *b.offset || *b.offset + b.bytes <= *a.offset) return false;
    std::vector<OpId> uses_a, uses_b;
    for (const Op& op : schedule.ops)
        for (const Access& access : op.accesses) {
            if (access.buffer == a.id) uses_a.push_back(op.id);
            if (access.buffer == b.id) uses_b.push_back(op.id);
        }
    if (a.persistent || b.persistent) return (a.persistent || !uses_a.empty()) && (b.persistent || !uses_b.empty());
    const auto all_before = [&](const std::vector<OpId>& first, const std::vector<OpId>& second) {
        return std::ranges::all_of(
            first, [&](OpId x) { return std::ranges::all_of(second, [&](OpId y) { return before(x, y); }); });
    };
    return !all_before(uses_a, uses_b) && !all_before(uses_b, uses_a);
}

TEST(VerifyMemory, FindsOverlapsLikeBruteForce) {
    std::size_t clashing = 0, sharing = 0;
    std::mt19937 random(7);
    for (std::uint32_t seed = 0; seed < 4000; ++seed) {
        Schedule schedule = random_program(seed, {.ranks = 1 + seed % 2,
                                                  .ops = 2 + seed % 16,
                                                  .buffers = 1 + seed % 5,
                                                  .after_percent = 60 + seed % 35,
                                                  .forward_references = seed % 4 == 0});
        const Reachability before(schedule);
        if (before.cyclic()) continue;
        for (Buffer& buffer : schedule.buffers) {
            buffer.persistent = random() % 12 == 0;
            buffer.offset = Bytes{static_cast<std::int64_t>(random() % 8000)};
        }
        bool expected = false;
        for (const Buffer& a : schedule.buffers)
            for (const Buffer& b : schedule.buffers)
                if (a.id < b.id) expected |= clash(schedule, before, a, b);
        ASSERT_EQ(any_of(verify(schedule), kOverlaps), expected) << "seed " << seed;
        (expected ? clashing : sharing) += 1;
    }
    EXPECT_GT(clashing, 500U);
    EXPECT_GT(sharing, 500U);
}

TEST(VerifyMemory, UnplacedBuffersShareNothing) {
    ScheduleBuilder b(1);
    const BufferId x = b.device(0, 1_KiB), y = b.device(0, 1_KiB);
    b.compute(0, {write(x)});
    b.lone_collective(0, {write(y)});
    EXPECT_TRUE(verify(b.schedule).empty());
    b.schedule.buffers[0].offset = 0_B;
    EXPECT_TRUE(verify(b.schedule).empty());
    b.schedule.buffers[1].offset = 1_KiB;
    EXPECT_TRUE(verify(b.schedule).empty());
    b.schedule.buffers[1].offset = 1023_B;
    EXPECT_FALSE(verify(b.schedule).empty());
}

TEST(VerifyMemory, AnOpMayReadWhatItWrites) {
    ScheduleBuilder b(1);
    const BufferId x = b.device(0, 1_KiB);
    b.compute(0, {read(x), write(x)});
    EXPECT_TRUE(verify(b.schedule).empty());
    b.schedule.ops[0].accesses[1].mode = AccessMode::kAccumulate;  // needs a value to add to
    EXPECT_FALSE(verify(b.schedule).empty());
}

TEST(VerifyMemory, PersistentBuffersAreWrittenByTheStepBefore) {
    ScheduleBuilder b(1);
    const BufferId weights = b.device(0, 1_KiB);
    b.compute(0, {read(weights)});
    EXPECT_FALSE(verify(b.schedule).empty());
    b.schedule.buffers[0].persistent = true;
    EXPECT_TRUE(verify(b.schedule).empty());
}

}  // namespace
}  // namespace sluice
