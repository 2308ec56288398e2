#include "runtime/rendezvous/call_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

constexpr std::array kRanks{Rank{0}, Rank{1}};

// Two ranks: two all-reduces of group 0 that differ in their phase, and two transfers that differ in size.
Schedule four_calls(bool swap_collectives, bool swap_transfers, bool drop = false) {
    ScheduleBuilder b(2);
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        const bool swapped = swap_collectives && rank == 1;
        const OpId first = b.all_reduce(rank), second = b.all_reduce(rank);
        b.schedule.ops[index(swapped ? first : second)].tag.phase = Phase::kBackward;
    }
    b.send(0, 1, 4_KiB), b.send(0, 1, 8_KiB);
    b.receive(1, 0, swap_transfers ? 8_KiB : 4_KiB);
    if (!drop) b.receive(1, 0, swap_transfers ? 4_KiB : 8_KiB);
    return b.schedule;
}

std::string difference(const Schedule& schedule) {
    return call_difference(call_lists(schedule, rank_programs(schedule, kRanks))).value_or("");
}

TEST(CallLists, of_a_sound_schedule_agree) { EXPECT_EQ(difference(four_calls(false, false)), ""); }

TEST(CallLists, name_the_first_swapped_call_and_both_ops) {
    EXPECT_EQ(
        difference(four_calls(true, false)),
        "group 0, call 0: rank 0 calls op 0, all_reduce 1.00 KiB, forward, but rank 1 calls op 2, all_reduce 1.00 KiB, "
        "backward, expected the same call");
    EXPECT_EQ(difference(four_calls(false, true)),
              "transfer from rank 0 to rank 1, call 0: rank 0 calls op 4, transfer 4.00 KiB, forward, but rank 1 calls "
              "op 6, transfer 8.00 KiB, forward, expected the same call");
}

TEST(CallLists, name_a_call_that_a_rank_does_not_make) {
    EXPECT_EQ(difference(four_calls(false, false, true)),
              "transfer from rank 0 to rank 1, call 1: rank 0 calls op 5, transfer 8.00 KiB, forward, but rank 1 makes "
              "no call, expected the same call");
}

TEST(CallLists, name_a_communicator_that_a_rank_does_not_know) {
    const Schedule schedule = four_calls(false, false);
    std::vector<CallList> lists = call_lists(schedule, rank_programs(schedule, kRanks));
    std::erase_if(lists, [](const CallList& list) { return list.rank == Rank{1} && list.communicator == "group 0"; });
    EXPECT_EQ(call_difference(lists),
              "group 0: 1 of its 2 members take part, rank 0 calls op 0, all_reduce 1.00 KiB, forward");
}

TEST(CallLists, come_back_from_bytes_as_they_went) {
    const Schedule schedule = four_calls(true, false);
    const std::vector<CallList> lists = call_lists(schedule, rank_programs(schedule, kRanks));
    const std::vector<std::byte> bytes = encode(lists);
    const std::vector<CallList> read = decode_call_lists(bytes);
    ASSERT_EQ(read.size(), lists.size());
    EXPECT_EQ(call_difference(read), call_difference(lists));
    EXPECT_EQ(encode(read), bytes);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut)
        EXPECT_THROW(decode_call_lists(std::span(bytes).first(cut)), InputError) << cut;
}

}  // namespace
}  // namespace sluice
