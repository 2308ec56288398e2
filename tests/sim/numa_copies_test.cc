// Copies to the memory of another NUMA node, in the replay and in the cost model.
#include <gtest/gtest.h>

#include "models/copy_cost.h"
#include "sim/copy_parts.h"
#include "sim/simulate.h"
#include "tests/sim/round_machine.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

// Links of 8 GiB/s, DRAMs of 64, two NUMA nodes with a GPU each.
RoundMachine two_gpus(NumaPlacement numa, double cross) {
    RoundMachine m = round_machine();
    set(m, "gpus_per_node", 2);
    set(m, "gpus_per_switch", 1);
    m.cluster.host.memory = 1024_GiB;
    m.cluster.host.numa = numa;
    m.cluster.host.cross_bandwidth = gib_per_second(cross);
    return m;
}

// One copy of `bytes` out or in on each of the `ranks` given; the rest idle.
Schedule copies(std::uint32_t of, std::initializer_list<std::uint32_t> ranks, Bytes bytes, LaneKind lane) {
    ScheduleBuilder b(of);
    for (std::uint32_t r = 0; r < of; ++r) b.schedule.buffers[index(b.host(r, bytes))].offset = 0_B;
    for (const std::uint32_t r : ranks) {
        const BufferId host = id_at<BufferId>(r), device = b.device(r, bytes);
        const bool out = lane == LaneKind::kCopyOut;
        b.op(r, {lane, kNoRank}, Copy{bytes}, {read(out ? device : host), write(out ? host : device)}, {});
    }
    return b.schedule;
}

double seconds(const Schedule& schedule, const RoundMachine& m) {
    return simulate(schedule, m.cluster, m.calibration).trace.step.value;
}

TEST(NumaCopies, WrongNodeIsSlowerByTheRatioOfTheRates) {
    for (const LaneKind lane : {LaneKind::kCopyOut, LaneKind::kCopyIn}) {
        const Schedule both = copies(2, {0, 1}, 8_GiB, lane);
        const RoundMachine local = two_gpus(NumaPlacement::kLocal, 2), first = two_gpus(NumaPlacement::kFirst, 2);
        EXPECT_DOUBLE_EQ(seconds(both, local), 1);
        EXPECT_DOUBLE_EQ(seconds(both, first), 4);
        EXPECT_DOUBLE_EQ(seconds(copies(2, {0}, 8_GiB, lane), first), 1) << "the first GPU is at home";
        const auto cost = [&](const RoundMachine& m) {
            return 8_GiB / (lane == LaneKind::kCopyOut ? shared_d2h(m.cluster) : shared_h2d(m.cluster));
        };
        EXPECT_DOUBLE_EQ(cost(local).value, 1);
        EXPECT_DOUBLE_EQ(cost(first).value, 4);
    }
}

TEST(NumaCopies, InterleavedHalfCrosses) {
    const RoundMachine slow = two_gpus(NumaPlacement::kInterleave, 2), fast = two_gpus(NumaPlacement::kInterleave, 64);
    const Schedule both = copies(2, {0, 1}, 8_GiB, LaneKind::kCopyOut);
    EXPECT_DOUBLE_EQ(seconds(both, slow), 2) << "4 GiB over 2 GiB/s";
    EXPECT_DOUBLE_EQ(seconds(both, fast), 1) << "the GPU's own link decides";
    EXPECT_DOUBLE_EQ((8_GiB / shared_d2h(slow.cluster)).value, 2);
    EXPECT_DOUBLE_EQ((8_GiB / shared_d2h(fast.cluster)).value, 1);
}

TEST(NumaCopies, GpusOfANumaNodeShareWhatJoinsItToTheOthers) {
    RoundMachine m = two_gpus(NumaPlacement::kFirst, 4);
    set(m, "gpus_per_node", 4);
    EXPECT_DOUBLE_EQ(seconds(copies(4, {2}, 8_GiB, LaneKind::kCopyIn), m), 2);
    EXPECT_DOUBLE_EQ(seconds(copies(4, {2, 3}, 8_GiB, LaneKind::kCopyIn), m), 4);
    EXPECT_DOUBLE_EQ(seconds(copies(4, {0, 1, 2, 3}, 8_GiB, LaneKind::kCopyIn), m), 4);
    EXPECT_DOUBLE_EQ((8_GiB / shared_h2d(m.cluster)).value, 4);
}

TEST(NumaCopies, BothDirectionsCrossAtOnce) {
    const RoundMachine m = two_gpus(NumaPlacement::kFirst, 2);
    Schedule out = copies(2, {1}, 8_GiB, LaneKind::kCopyOut);
    Op in = copies(2, {1}, 8_GiB, LaneKind::kCopyIn).ops.front();
    in.id = OpId{1};
    out.ops.push_back(in);
    EXPECT_DOUBLE_EQ(seconds(out, m), 4) << "a rate per direction";
}

TEST(NumaCopies, PathsOverWhatJoinsTheNodes) {
    const RoundMachine m = two_gpus(NumaPlacement::kFirst, 2);
    const Topology t(m.cluster, 2);
    const auto names = [&](const Path& path) {
        std::string all;
        for (const LinkId id : path) all += t.links()[static_cast<std::size_t>(id)].name + " ";
        return all;
    };
    EXPECT_EQ(names(t.copy_out(Rank{1}, t.memory(Rank{1}, 0))),
              "node0/gpu1/pcie/out node0/switch1/out node0/cross1/out node0/cross0/in node0/dram0 ");
    EXPECT_EQ(names(t.copy_in(t.memory(Rank{1}, 0), Rank{1})),
              "node0/dram0 node0/cross0/out node0/cross1/in node0/switch1/in node0/gpu1/pcie/in ");
}

TEST(NumaCopies, AnArenaThatSpillsOverDividesItsCopies) {
    RoundMachine m = two_gpus(NumaPlacement::kFirst, 2);
    m.cluster.host.memory = 24_GiB;  // 12 each: 8 of rank 0, then 4 of rank 1, and 4 on its own
    const Schedule schedule = copies(2, {1}, 8_GiB, LaneKind::kCopyOut);
    const Topology t(m.cluster, 2);
    const auto parts = copy_parts(place_pinned(pinned_bytes(schedule, HostAllocator::kExact), m.cluster), t);
    ASSERT_EQ(parts[1].size(), 2U);
    EXPECT_EQ(divide(8_GiB, parts[1]), (std::vector<Bytes>{4_GiB, 4_GiB}));
    EXPECT_EQ(divide(3_B, parts[1]), (std::vector<Bytes>{2_B, 1_B}));
    EXPECT_DOUBLE_EQ(seconds(schedule, m), 2);
}

}  // namespace
}  // namespace sluice
