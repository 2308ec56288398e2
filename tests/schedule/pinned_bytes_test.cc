#include "schedule/pinned_bytes.h"

#include <gtest/gtest.h>

#include "schedule/place_memory.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

// Each row: buffers of one rank as (bytes, first op, last op), and what is taken.
struct Row {
    const char* why;
    std::vector<std::tuple<std::int64_t, int, int>> buffers;
    std::int64_t expected;
};

TEST(PinnedBytes, PowersOfTwo) {
    constexpr std::int64_t kMiB = 1 << 20;
    const Row rows[] = {
        {"nothing", {}, 0},
        {"a power stays", {{4 * kMiB, 0, 1}}, 4 * kMiB},
        {"2.25 GiB take 4", {{2304 * kMiB, 0, 1}}, 4096 * kMiB},
        {"one byte over", {{4 * kMiB + 1, 0, 1}}, 8 * kMiB},
        {"two at a time", {{3 * kMiB, 0, 2}, {3 * kMiB, 1, 3}}, 8 * kMiB},
        {"one after the other", {{3 * kMiB, 0, 1}, {4 * kMiB, 2, 3}}, 4 * kMiB},
        {"not in the op that ends the other", {{3 * kMiB, 0, 1}, {3 * kMiB, 1, 2}}, 8 * kMiB},
        {"no reuse across sizes", {{3 * kMiB, 0, 1}, {2 * kMiB, 2, 3}}, 6 * kMiB},
        {"three with two alive", {{kMiB, 0, 1}, {kMiB, 0, 3}, {kMiB, 2, 3}}, 2 * kMiB},
    };
    for (const Row& row : rows) {
        ScheduleBuilder b(2);
        std::vector<std::vector<Access>> accesses(4);
        for (const auto& [bytes, first, last] : row.buffers) {
            const BufferId id = b.host(1, Bytes{bytes});
            accesses[static_cast<std::size_t>(first)].push_back(write(id));
            accesses[static_cast<std::size_t>(last)].push_back(read(id));
        }
        for (const std::vector<Access>& of_op : accesses) b.compute(1, of_op);
        EXPECT_EQ(power_of_two_bytes(b.schedule), (std::vector<Bytes>{0_B, Bytes{row.expected}})) << row.why;
    }
}

TEST(PinnedBytes, AnArenaIsExact) {
    ScheduleBuilder b(2);
    const BufferId x = b.host(0, 1000_B), y = b.host(0, 3000_B), device = b.device(0, 1_MiB);
    b.compute(0, {write(x), write(y), write(device)});
    EXPECT_EQ(arena_bytes(b.schedule), (std::vector<Bytes>{0_B, 0_B})) << "not placed yet";
    place_memory(b.schedule);
    EXPECT_EQ(arena_bytes(b.schedule)[0],
              std::max(*b.schedule.buffers[0].offset + 1000_B, *b.schedule.buffers[1].offset + 3000_B));
    EXPECT_LE(arena_bytes(b.schedule)[0], 4096_B + 512_B);
    EXPECT_EQ(arena_bytes(b.schedule)[1], 0_B);
    EXPECT_EQ(power_of_two_bytes(b.schedule)[0], 1024_B + 4096_B);
}

}  // namespace
}  // namespace sluice
