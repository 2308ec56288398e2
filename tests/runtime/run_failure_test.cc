// However a run fails, it ends, soon, with one message that says what happened where.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>

#include "base/error.h"
#include "tests/runtime/toy_step.h"

namespace sluice {
namespace {

// Two ranks and every kind of lane; each op is needed by ops of the other rank.
constexpr std::string_view kTwoRanks = R"(sluice-schedule 1
host h0 1 MiB
rank r0 h0 1 MiB
rank r1 h0 1 MiB
group g0 r0 r1
buffer b0 r0 device activation 256 B @0 B
buffer b1 r0 host staging 256 B @0 B
buffer b2 r0 device activation 256 B @256 B
buffer b3 r1 device activation 256 B @0 B
op 0 r0 compute norm(1 KiB) | write b0 | forward stage 0 layer 3 sub 1
op 1 r0 copy_out 256 B | after 0 | read b0 write b1 | forward stage 0
op 2 r0 copy_in 256 B | after 1 | read b1 write b2 | forward stage 0
op 3 r0 send r1 256 B | after 2 | read b2 | forward stage 0
op 4 r1 receive r0 256 B | write b3 | forward stage 1
op 5 r1 collective all_reduce g0 256 B | after 4 | accumulate b3 | optimizer
op 6 r0 collective all_reduce g0 256 B | after 3 | accumulate b2 | optimizer
end
)";

RunOp fail_at(std::uint32_t op, std::function<void()> fail, int step = 0) {
    return [=, runs = std::make_shared<int>(0)](const Op& at, KernelClock&) {
        if (at.id == OpId{op} && (*runs)++ == step) fail();
    };
}

// The message of the error that a step ends with. Fails when it takes a second or does not end in an `Error`.
template <class Error>
std::string failure_of(ToyRun& toy, int steps = 1) {
    for (int step = 0; step + 1 < steps; ++step) toy.run.run_step();
    const auto begin = std::chrono::steady_clock::now();
    std::string message;
    try {
        toy.run.run_step();
        ADD_FAILURE() << "the step ended well";
    } catch (const Error& error) {
        message = error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    EXPECT_THROW(toy.run.run_step(), Error);  // and so does every later one
    return message;
}

TEST(RunFailure, AnOpOfAnyLaneEndsTheRun) {
    const std::pair<std::uint32_t, std::string> cases[] = {
        {0, "op 0 (rank 0, compute), forward stage 0 layer 3 sub 1: token 70000 is not in the vocabulary"},
        {3, "op 3 (rank 0, send to 1), forward stage 0: token 70000 is not in the vocabulary"},
        {4, "op 4 (rank 1, receive from 0), forward stage 1: token 70000 is not in the vocabulary"},
        {5, "op 5 (rank 1, collective), optimizer: token 70000 is not in the vocabulary"},
        {6, "op 6 (rank 0, collective), optimizer: token 70000 is not in the vocabulary"},
    };
    for (const auto& [op, message] : cases)
        for (const int step : {0, 2}) {
            ToyRun toy(parse(kTwoRanks), {},
                       fail_at(
                           op, [] { throw InputError("token 70000 is not in the vocabulary"); }, step));
            EXPECT_EQ(failure_of<InputError>(toy, step + 1), message);
        }
}

TEST(RunFailure, KeepsTheKindOfTheError) {
    ToyRun environment(parse(kTwoRanks), {}, fail_at(0, [] { throw EnvironmentError("disk full"); }));
    EXPECT_NE(failure_of<EnvironmentError>(environment).find("disk full"), std::string::npos);
    ToyRun memory(parse(kTwoRanks), {}, fail_at(0, [] { throw std::bad_alloc(); }));
    EXPECT_NE(failure_of<EnvironmentError>(memory).find("out of memory"), std::string::npos);
    ToyRun other(parse(kTwoRanks), {}, fail_at(0, [] { throw std::runtime_error("odd"); }));
    EXPECT_NE(failure_of<InternalError>(other).find("odd"), std::string::npos);
    ToyRun unknown(parse(kTwoRanks), {}, fail_at(0, [] { throw 1; }));
    EXPECT_NE(failure_of<InternalError>(unknown).find("no std::exception"), std::string::npos);
}

// A copy held up for an hour does not keep a failure waiting, and both copy lanes are woken.
TEST(RunFailure, DoesNotWaitForSlowCopies) {
    Schedule schedule = parse(kTwoRanks);
    schedule.ops[5].after.clear();
    CpuOptions options;
    options.copy_out_limit = BytesPerSecond{256 / 3600.0};
    ToyRun toy(schedule, options, fail_at(5, [] { throw InputError("the loss is not a number"); }));
    EXPECT_NE(failure_of<InputError>(toy).find("the loss is not a number"), std::string::npos);
}

TEST(RunFailure, KernelsThatAreNotTimedAreNamed) {
    Schedule schedule = parse(kTwoRanks);
    ToyRun toy(schedule, {}, [](const Op& op, KernelClock& clock) {
        if (op.id == OpId{0}) clock.lap();
    });
    EXPECT_EQ(failure_of<InternalError>(toy),
              "op 0 (rank 0, compute), forward stage 0 layer 3 sub 1: 2 kernels were timed, expected the 1 of the op");
}

TEST(RunFailure, DestroysAnIdleRun) {
    ToyRun toy(parse(kTwoRanks));
    toy.run.run_step();
    // and one that never ran
    ToyRun idle(parse(kTwoRanks));
}

// ---- Schedules that verify() would refuse
// ----------------------------------------------------------------------------

std::string stuck(Schedule schedule) {
    ToyRun toy(std::move(schedule));
    return failure_of<InternalError>(toy);
}

TEST(RunFailure, SaysWhichOpsAreStuck) {
    Schedule no_receive = parse(kTwoRanks);
    no_receive.ops[4] = no_receive.ops[5];
    no_receive.ops[4].id = OpId{4};
    no_receive.ops[4].after.clear();
    no_receive.ops[5] = no_receive.ops[6];
    no_receive.ops[5].id = OpId{5};
    no_receive.ops.pop_back();
    EXPECT_EQ(stuck(no_receive),
              "the step is stuck: op 5 r0 collective never started; it waits for op 3 r0 send r1 (after); "
              "op 3 r0 send r1 never started; it waits for a receive on r1 from r0 that the schedule lacks; "
              "op 4 r1 collective never started; it waits for op 5 r0 collective (partner, not ready); "
              "op 3 is inside a call; op 4 is inside a call");

    Schedule no_partner = parse(kTwoRanks);
    no_partner.ops.pop_back();
    EXPECT_EQ(
        stuck(no_partner),
        "the step is stuck: op 5 r1 collective never started; it waits for a collective of group g0 on r0 that the "
        "schedule lacks; op 5 is inside a call");
}

// Ranks that both receive before they send.
TEST(RunFailure, FindsCyclesThroughMessages) {
    const Schedule schedule = parse(R"(sluice-schedule 1
host h0 1 MiB
rank r0 h0 1 MiB
rank r1 h0 1 MiB
buffer b0 r0 device comm 64 B @0 B
buffer b1 r1 device comm 64 B @0 B
op 0 r0 receive r1 64 B | write b0
op 1 r0 send r1 64 B | after 0 | read b0
op 2 r1 receive r0 64 B | write b1
op 3 r1 send r0 64 B | after 2 | read b1
end
)");
    EXPECT_EQ(stuck(schedule),
              "the step is stuck: op 1 r0 send r1 never started; it waits for op 0 r0 receive r1 (after); "
              "op 0 r0 receive r1 never started; it waits for op 3 r1 send r0 (partner, not ready); "
              "op 3 r1 send r0 never started; it waits for op 2 r1 receive r0 (after); "
              "op 2 r1 receive r0 never started; it waits for op 1 r0 send r1 (partner, not ready); "
              "op 0 is inside a call; op 2 is inside a call");
}

TEST(RunFailure, RefusesWhatCannotBeIssuedOrCopied) {
    Schedule cycle = parse(kTwoRanks);
    cycle.ops[0].after = {OpId{1}};
    EXPECT_THROW(ToyRun{cycle}, InputError);
    Schedule uneven = parse(kTwoRanks);
    std::get<Copy>(uneven.ops[1].work).bytes = 128_B;
    try {
        ToyRun toy(uneven);
        ADD_FAILURE() << "copied";
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(),
                     "op 1 (rank 0, copy_out) copies 128 bytes, but reads 256 and writes 256, expected the same");
    }
    Schedule unplaced = parse(kTwoRanks);
    unplaced.buffers[2].offset.reset();
    EXPECT_THROW(ToyRun{unplaced}, InputError);
}

}  // namespace
}  // namespace sluice
