// Jobs beside one another; every expected time can be computed by hand.
#include "sim/simulate_jobs.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "tests/sim/round_machine.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

// Links and DRAM of 8 GiB/s, latencies 0: one copy of 8 GiB takes a second, two beside one another two.
RoundMachine narrow_dram(std::int64_t numa_nodes = 1) {
    RoundMachine m = round_machine();
    set(m, "gpus_per_node", 4);
    set(m, "gpus_per_switch", 1);
    set(m, "dram", 8);
    m.cluster.host.numa_nodes = numa_nodes;
    m.cluster.host.memory = 1024_GiB;
    return m;
}

Compute seconds_of_work(std::int64_t seconds) {  // 1 GiB/s of traffic
    return {{{Pointwise{PointwiseKind::kOther, 1_GiB * seconds}, 1}}};
}

// On each rank a copy out that the compute after it waits for.
Schedule copy_then_compute(std::uint32_t ranks, Bytes bytes, std::int64_t seconds) {
    ScheduleBuilder b(ranks);
    for (std::uint32_t r = 0; r < ranks; ++r) {
        const BufferId device = b.device(r, bytes), host = b.host(r, bytes);
        const OpId copy = b.op(r, {LaneKind::kCopyOut, kNoRank}, Copy{bytes}, {read(device), write(host)}, {});
        b.op(r, {LaneKind::kCompute, kNoRank}, seconds_of_work(seconds), {write(device)}, {copy});
    }
    return b.schedule;
}

std::vector<Rank> gpus(std::initializer_list<std::uint32_t> ids) {
    std::vector<Rank> result;
    for (const std::uint32_t id : ids) result.push_back(Rank{id});
    return result;
}

struct Pair {
    std::vector<JobTimes> alone, together;
};

Pair run(const Schedule& a, std::vector<Rank> on_a, const Schedule& b, std::vector<Rank> on_b, const RoundMachine& m) {
    const std::vector<Job> jobs = {{&a, std::move(on_a)}, {&b, std::move(on_b)}};
    Pair pair;
    pair.alone = simulate_alone(jobs, m.cluster, m.calibration);
    pair.together = simulate_together(jobs, pair.alone, m.cluster, m.calibration).jobs;
    return pair;
}

void expect_steps(const Pair& pair, std::array<double, 2> alone, std::array<double, 2> together) {
    ASSERT_EQ(pair.together.size(), 2U);
    for (std::size_t j = 0; j < 2; ++j) {
        EXPECT_NEAR(pair.alone[j].step.value, alone[j], 1e-9) << "job " << j;
        EXPECT_NEAR(pair.together[j].step.value, together[j], 1e-9) << "job " << j;
        EXPECT_GE(pair.together[j].steps, kLeastSteps);
    }
}

TEST(SimulateJobs, WithoutCopiesNobodyIsSlowed) {
    ScheduleBuilder a(1), b(1);
    a.op(0, {LaneKind::kCompute, kNoRank}, seconds_of_work(3), {}, {});
    b.op(0, {LaneKind::kCompute, kNoRank}, seconds_of_work(7), {}, {});
    expect_steps(run(a.schedule, gpus({0}), b.schedule, gpus({1}), narrow_dram()), {3, 7}, {3, 7});
}

TEST(SimulateJobs, TwoThatCopyGetHalfOfTheDramEach) {
    const Schedule job = copy_then_compute(1, 8_GiB, 0);
    const Pair pair = run(job, gpus({0}), job, gpus({1}), narrow_dram());
    expect_steps(pair, {1, 1}, {2, 2});
    for (std::size_t j = 0; j < 2; ++j) {
        EXPECT_NEAR(pair.alone[j].exposed_d2h.value, 1, 1e-9);
        EXPECT_NEAR(pair.together[j].exposed_d2h.value, 2, 1e-9);
        EXPECT_EQ(pair.together[j].exposed_h2d.value, 0);
    }
}

TEST(SimulateJobs, OnDifferentNumaNodesTheyDoNotMeet) {
    const Schedule job = copy_then_compute(1, 8_GiB, 0);
    expect_steps(run(job, gpus({0}), job, gpus({1}), narrow_dram(2)), {1, 1}, {2, 2});
    expect_steps(run(job, gpus({0}), job, gpus({2}), narrow_dram(2)), {1, 1}, {1, 1});
    RoundMachine first = narrow_dram(2);
    first.cluster.host.numa = NumaPlacement::kFirst;
    first.cluster.host.cross_bandwidth = gib_per_second(64);
    Schedule placed = job;
    for (Buffer& buffer : placed.buffers) buffer.offset = 0_B;
    expect_steps(run(placed, gpus({0}), placed, gpus({2}), first), {1, 1}, {2, 2});
}

// B copies for two of its five seconds; A does one step meanwhile and three in the other three.
TEST(SimulateJobs, TheShorterJobGoesOnUntilTheLongerHasEnded) {
    const Pair pair =
        run(copy_then_compute(1, 8_GiB, 0), gpus({0}), copy_then_compute(1, 8_GiB, 3), gpus({1}), narrow_dram());
    expect_steps(pair, {1, 4}, {1.25, 5});
    EXPECT_EQ(pair.together[0].steps, 8U);
    EXPECT_EQ(pair.together[1].steps, 2U);
}

// Three flows share the DRAM all the time, two of them B's: its steps take 1.5 s, A's 3. Alone both take one.
TEST(SimulateJobs, AJobThatRunsOutOfStepsGetsMore) {
    const Pair pair =
        run(copy_then_compute(1, 8_GiB, 0), gpus({0}), copy_then_compute(2, 4_GiB, 0), gpus({1, 2}), narrow_dram());
    expect_steps(pair, {1, 1}, {3, 1.5});
}

// Groups, peers and steps in a row: a job that shares nothing runs as it does by itself.
TEST(SimulateJobs, RanksKeepTheirPartnersOnOtherGpus) {
    ScheduleBuilder b(2);
    const OpId worked = b.op(0, {LaneKind::kCompute, kNoRank}, seconds_of_work(1), {}, {});
    const OpId sent = b.send(0, 1, 16_GiB, {}, {worked}), got = b.receive(1, 0, 16_GiB);
    b.all_reduce(0, {}, {sent});
    b.all_reduce(1, {}, {got});
    b.op(1, {LaneKind::kCompute, kNoRank}, seconds_of_work(2), {}, {got});
    RoundMachine m = narrow_dram();
    set(m, "nodes", 2);
    const double step = simulate(b.schedule, m.cluster, m.calibration).trace.step.value;
    expect_steps(run(b.schedule, gpus({0, 1}), b.schedule, gpus({2, 3}), m), {step, step}, {step, step});
    const Pair across = run(b.schedule, gpus({1, 5}), b.schedule, gpus({2, 3}), m);
    EXPECT_GT(across.alone[0].step.value, step) << "over adapters";
    EXPECT_NEAR(across.together[0].step.value, across.alone[0].step.value, 1e-9);
}

}  // namespace
}  // namespace sluice
