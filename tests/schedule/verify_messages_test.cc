// What verify() says where a golden file of one mistake is not enough.
#include <gtest/gtest.h>

#include "schedule/verify.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

std::vector<std::string> messages(const Schedule& schedule) {
    std::vector<std::string> result;
    for (const Diagnostic& d : verify(schedule)) result.push_back(d.rule + ": " + d.message);
    return result;
}

TEST(VerifyMessages, EveryKnotHasItsCycle) {
    ScheduleBuilder b(3);
    for (std::uint32_t r = 0; r < 2; ++r) {
        const OpId first = b.compute(r), second = b.lone_collective(r, {}, {first});
        b.schedule.ops[index(first)].after = {second};
    }
    b.compute(1);  // blocked, but in no cycle
    b.compute(2);
    EXPECT_EQ(
        messages(b.schedule),
        (std::vector<std::string>{
            "cycle: op 0 (rank 0, compute) waits by its after for op 1 (rank 0, collective), which waits by its after "
            "for it: expected no op to wait for itself",
            "cycle: op 2 (rank 1, compute) waits by its after for op 3 (rank 1, collective), which waits by its after "
            "for it: expected no op to wait for itself"}));
}

TEST(VerifyMessages, LongCyclesAreCut) {
    ScheduleBuilder b(1);
    for (int i = 0; i < 1000; ++i) b.compute(0);
    b.schedule.ops[0].after = {OpId{999}};
    const auto found = messages(b.schedule);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_TRUE(found[0].starts_with(
        "cycle: op 0 (rank 0, compute) waits by its after for op 999 (rank 0, compute), which waits "
        "in its lane for op 998 (rank 0, compute)"))
        << found[0];
    EXPECT_TRUE(found[0].ends_with(
        "op 984 (rank 0, compute), and so on through 984 more waits back to it: expected no op to wait "
        "for itself"))
        << found[0];
}

TEST(VerifyMessages, CollectivesInDifferentOrderOnTwoGroupsDeadlock) {
    ScheduleBuilder b(2);
    b.schedule.groups.push_back({GroupId{3}, {Rank{1}, Rank{0}}});
    const auto on = [&](OpId op, std::uint32_t group) {
        std::get<Collective>(b.schedule.ops[index(op)].work).group = GroupId{group};
    };
    b.all_reduce(0);
    on(b.all_reduce(0), 3);
    on(b.all_reduce(1), 3);
    b.all_reduce(1);
    EXPECT_EQ(messages(b.schedule), (std::vector<std::string>{"cycle: op 1 (rank 0, collective) waits in its lane for "
                                                              "op 0 (rank 0, collective), which meets op 3 (rank 1, "
                                                              "collective), which waits in its lane for op 2 (rank 1, "
                                                              "collective), which meets it: expected no op to wait for "
                                                              "itself"}));
}

TEST(VerifyMessages, NothingSharesBytesWithPersistentBuffers) {
    ScheduleBuilder b(1);
    for (int i = 0; i < 2; ++i) {
        b.device(0, 1_KiB);
        b.schedule.buffers.back().persistent = true;
    }
    const BufferId x = b.device(0, 4_KiB);
    b.compute(0, {write(x)});
    b.schedule.buffers[0].offset = 0_B;
    b.schedule.buffers[1].offset = 1_KiB;
    b.schedule.buffers[2].offset = 1_KiB;
    EXPECT_EQ(messages(b.schedule),
              (std::vector<std::string>{
                  "overlap: buffer 2 (rank 0, device activation) at bytes 1024..5119 shares bytes with buffer 1 "
                  "(rank 0, device activation) at bytes 1024..2047, expected none: the latter is persistent"}));
    b.schedule.buffers[1].offset = 512_B;  // and not with each other, used or not
    b.schedule.buffers[2].offset = 8_KiB;
    EXPECT_EQ(messages(b.schedule),
              (std::vector<std::string>{
                  "overlap: buffer 1 (rank 0, device activation) at bytes 512..1535 shares bytes with buffer 0 "
                  "(rank 0, device activation) at bytes 0..1023, expected none: the latter is persistent"}));
}

}  // namespace
}  // namespace sluice
