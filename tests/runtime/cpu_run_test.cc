#include "runtime/cpu/cpu_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/error.h"
#include "schedule/verify.h"
#include "tests/runtime/allocation_count.h"
#include "tests/runtime/toy_step.h"

namespace sluice {
namespace {

// Two ranks, every kind of lane: rank 0 makes x, offloads it, sends it on and reloads it; both reduce their results.
constexpr std::string_view kAllLanes = R"(sluice-schedule 1
host h0 1 GiB
rank r0 h0 1 MiB
rank r1 h0 1 MiB
group g0 r0 r1
buffer b0 r0 device weights 256 B @0 B persistent
buffer b1 r0 device activation 256 B @512 B
buffer b2 r0 host staging 256 B @0 B
buffer b3 r0 device activation 256 B @512 B
buffer b4 r0 device grads 256 B @1024 B persistent
buffer b5 r1 device activation 256 B @0 B
buffer b6 r1 device grads 256 B @512 B persistent
op 0 r0 compute norm(1 KiB) gemm(8 8 8) | read b0 write b1 | forward stage 0 sub 0
op 1 r0 copy_out 256 B | after 0 | read b1 write b2 | forward stage 0 sub 0
op 2 r0 send r1 256 B | after 0 | read b1 | forward stage 0 sub 0
op 3 r1 receive r0 256 B | write b5 | forward stage 1 sub 0
op 4 r1 compute gemm(8 8 8) | after 3 | read b5 accumulate b6 | backward stage 1 sub 0
op 5 r1 collective all_reduce g0 256 B | after 4 | accumulate b6 | optimizer
op 6 r0 copy_in 256 B | after 1 2 | read b2 write b3 | backward stage 0 sub 0
op 7 r0 compute gemm(8 8 8) | after 6 | read b3 accumulate b4 | backward stage 0 sub 0
op 8 r0 collective all_reduce g0 256 B | after 7 | accumulate b4 | optimizer
op 9 r0 compute adamw(1 KiB) | after 8 | read b4 accumulate b0 | optimizer
end
)";

TEST(CpuRun, RunsEveryKindOfLane) {
    const Schedule schedule = parse(kAllLanes);
    ASSERT_TRUE(verify(schedule).empty()) << verify(schedule)[0].message;
    ToyRun toy(schedule);
    ToyReference reference(toy.schedule);
    for (int step = 0; step < 300; ++step) {
        toy.run.run_step();
        reference.run_step();
        for (const std::uint32_t buffer : {0U, 4U, 6U})
            ASSERT_EQ(toy.content(BufferId{buffer}), reference.content(BufferId{buffer})) << step;
    }
    EXPECT_GT(toy.run.step_time(), Seconds{0});
}

TEST(CpuRun, AllocatesNothingInAStep) {
    CpuOptions options;
    options.poison_on_release = true;
    options.delay_copies = CopyDelays{1, Seconds{50e-6}};
    options.copy_in_limit = BytesPerSecond{1e7};
    ToyRun toy(parse(kAllLanes), options);
    toy.run.run_step();
    const AllocationCount count;
    for (int step = 0; step < 20; ++step) toy.run.run_step();
    EXPECT_EQ(count.so_far(), 0U);
    auto sign = std::make_unique<int>(1);  // of life
    EXPECT_EQ(count.so_far(), 1U);
}

// A limit is a floor under the time of copies, and can change between steps.
TEST(CpuRun, HoldsCopiesUpToTheLimit) {
    ToyRun toy(parse(kAllLanes));
    const auto copy_time = [&](std::uint32_t op) {
        toy.run.run_step();
        const OpTimes& times = toy.run.times().ops[op];
        return times.end - times.begin;
    };
    toy.run.limit_copies(LaneKind::kCopyOut, BytesPerSecond{256 / 5e-3});
    EXPECT_GE(copy_time(1), 5'000'000);
    toy.run.limit_copies(LaneKind::kCopyIn, BytesPerSecond{256 / 3e-3});
    EXPECT_GE(copy_time(6), 3'000'000);
    toy.run.limit_copies(LaneKind::kCopyOut, std::nullopt);
    EXPECT_THROW(toy.run.limit_copies(LaneKind::kCompute, std::nullopt), InternalError);
}

// Blocks of one buffer live and die apart: K and V of the last subsequence are poisoned while the first one's are in
// use.
TEST(CpuRun, ReleasesBlockByBlock) {
    const Schedule schedule = parse(R"(sluice-schedule 1
host h0 1 GiB
rank r0 h0 1 MiB
buffer b0 r0 device kv 128 B @0 B blocks 64 B 64 B
buffer b1 r0 device grads 64 B @512 B persistent
op 0 r0 compute | write b0[0] | forward sub 0
op 1 r0 compute | read b0[0] write b0[1] | forward sub 1
op 2 r0 compute | read b0 accumulate b1 | backward sub 1
op 3 r0 compute | read b0[0] accumulate b1 | backward sub 0
end
)");
    CpuOptions options;
    options.poison_on_release = true;
    std::vector<bool> poisoned;
    const RankArenas* arenas = nullptr;
    ToyRun toy(schedule, options, [&](const Op& op, KernelClock&) {
        if (op.id != OpId{3}) return;
        for (const std::uint32_t block : {0U, 1U})
            poisoned.push_back(is_poison(as_floats(arenas->span_of(BufferId{0}, block, block))[3]));
    });
    arenas = toy.arenas.data();
    ToyReference reference(toy.schedule);
    for (int step = 0; step < 3; ++step) {
        toy.run.run_step();
        reference.run_step();
        EXPECT_EQ(toy.content(BufferId{1}), reference.content(BufferId{1}));
    }
    EXPECT_EQ(poisoned, (std::vector<bool>{false, true, false, true, false, true}));
}

// An op that uses more than it says finds poison.
TEST(CpuRun, UndeclaredReadsFindPoison) {
    Schedule schedule = parse(kAllLanes);
    CpuOptions options;
    options.poison_on_release = true;
    const RankArenas* arenas = nullptr;
    bool found = false;
    ToyRun toy(schedule, options, [&](const Op& op, KernelClock&) {
        if (op.id == OpId{9}) found = is_poison(as_floats(arenas->span_of(BufferId{3}))[0]);
    });
    arenas = toy.arenas.data();
    toy.run.run_step();
    EXPECT_TRUE(found);
}

}  // namespace
}  // namespace sluice
