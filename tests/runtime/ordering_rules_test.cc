// The ordering rules of offloading: with each one dropped, verify() refuses the schedule, and a run of it all the same
// comes to wrong results; with all of them, no disturbance changes a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string_view>
#include <thread>

#include "schedule/verify.h"
#include "tests/runtime/toy_step.h"

namespace sluice {
namespace {

// Device bytes @512 belong to x0 until it is offloaded (b2), then to x1 (b3), then to x0 reloaded (b4). Host bytes @0
// belong to x0 (b6), then to x2 (b8), which is reloaded to bytes of its own (b9).
constexpr std::string_view kOffload = R"(sluice-schedule 1
host h0 1 MiB
rank r0 h0 1 MiB
group g0 r0
buffer b0 r0 device weights 256 B @0 B persistent
buffer b1 r0 device grads 256 B @256 B persistent
buffer b2 r0 device activation 256 B @512 B
buffer b3 r0 device activation 256 B @512 B
buffer b4 r0 device activation 256 B @512 B
buffer b5 r0 device activation 256 B @768 B
buffer b6 r0 host staging 256 B @0 B
buffer b7 r0 device activation 256 B @1024 B
buffer b8 r0 host staging 256 B @0 B
buffer b9 r0 device activation 256 B @1280 B
op 0 r0 compute | read b0 write b2 | forward sub 0
op 1 r0 copy_out 256 B | after 0 | read b2 write b6 | forward sub 0
op 2 r0 collective all_reduce g0 256 B | after 0 | read b2 write b5 | forward sub 0
op 3 r0 compute | after 1 2 | read b0 write b3 | forward sub 1
op 4 r0 compute | after 2 | read b3 b5 accumulate b1 | backward sub 1
op 5 r0 copy_in 256 B | after 1 4 | read b6 write b4 | backward sub 0
op 6 r0 compute | read b0 write b7 | forward sub 2
op 7 r0 compute | after 5 | read b4 accumulate b1 | backward sub 0
op 8 r0 copy_out 256 B | after 5 6 | read b7 write b8 | forward sub 2
op 9 r0 copy_in 256 B | after 8 | read b8 write b9 | backward sub 2
op 10 r0 compute | after 9 | read b9 accumulate b1 | backward sub 2
op 11 r0 compute | read b1 accumulate b0 | optimizer
end
)";

struct OrderingRule {
    std::string_view name;
    std::uint32_t op, after;  // `op` no longer waits for `after`
};

constexpr OrderingRule kRules[] = {
    {"an offload waits for what it copies", 1, 0},
    {"device bytes are used again when their offload is over", 3, 1},
    {"device bytes are used again when their last reader is done", 3, 2},
    {"a reload waits until its target is free", 5, 4},
    {"a reload waits for its offload", 9, 8},
    {"backward waits for the reload", 7, 5},
    {"a pinned slot is used again when its reload is over", 8, 5},
};

Schedule without(const OrderingRule& rule) {
    Schedule schedule = parse(kOffload);
    std::erase(schedule.ops[rule.op].after, OpId{rule.after});
    return schedule;
}

// Before each op that is no copy, a random while; collectives take longer than the copies beside them.
RunOp pause(std::uint32_t seed, std::chrono::microseconds most) {
    auto turn = std::make_shared<std::atomic<std::uint32_t>>(0);
    return [=](const Op& op, KernelClock&) {
        std::minstd_rand random(seed + 7919 * turn->fetch_add(1));
        random.discard(3);
        std::this_thread::sleep_for(most * (random() % 1000) / (op.lane.kind == LaneKind::kCollective ? 200 : 1000));
    };
}

bool same(const ToyRun& toy, const ToyReference& reference) {
    const auto equal = [&](BufferId id) {  // bit by bit but for NaN, which is never right
        return toy.content(id) == reference.content(id);
    };
    return equal(BufferId{0}) && equal(BufferId{1});
}

TEST(OrderingRules, EachIsNeededToPassVerify) {
    EXPECT_TRUE(verify(parse(kOffload)).empty());
    for (const OrderingRule& rule : kRules) EXPECT_FALSE(verify(without(rule)).empty()) << rule.name;
}

// The races are real: not for the thread sanitizer.
#ifndef __SANITIZE_THREAD__
TEST(OrderingRules, ARunWithoutOneComesToWrongResults) {
    CpuOptions options;
    options.poison_on_release = true;
    options.delay_copies = CopyDelays{1, Seconds{2e-3}};
    for (const OrderingRule& rule : kRules) {
        ToyRun toy(without(rule), options, pause(2, std::chrono::microseconds(2000)));
        ToyReference reference(toy.schedule);
        bool caught = false;
        for (int step = 0; step < 100 && !caught; ++step) {
            toy.run.run_step();
            reference.run_step();
            caught = !same(toy, reference);
        }
        EXPECT_TRUE(caught) << rule.name;
    }
}
#endif

TEST(OrderingRules, NoDisturbanceChangesABitOfARunWithAll) {
    for (std::uint32_t seed = 0; seed < 10; ++seed) {
        CpuOptions options;
        options.poison_on_release = seed % 2 == 0;
        options.delay_copies = CopyDelays{seed, Seconds{200e-6}};
        ToyRun toy(parse(kOffload), options, pause(seed, std::chrono::microseconds(200)));
        ToyReference reference(toy.schedule);
        for (int step = 0; step < 20; ++step) {
            toy.run.run_step();
            reference.run_step();
            ASSERT_TRUE(same(toy, reference)) << "seed " << seed << " step " << step;
        }
    }
}

// Nothing that is not persistent outlives its step.
TEST(OrderingRules, ReleasedMemoryIsPoison) {
    CpuOptions options;
    options.poison_on_release = true;
    ToyRun toy(parse(kOffload), options);
    for (int step = 0; step < 2; ++step) {
        toy.run.run_step();
        for (const Buffer& buffer : toy.schedule.buffers)
            for (const float value : toy.content(buffer.id)) EXPECT_EQ(is_poison(value), !buffer.persistent);
    }
}

}  // namespace
}  // namespace sluice
