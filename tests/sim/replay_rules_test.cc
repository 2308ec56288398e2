// Whatever the schedule and the machine: the replay keeps rules 1 to 3 of schedule/schedule.h, starts every op as soon
// as they allow, and says truly what it waited for.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "schedule/place_memory.h"
#include "schedule/schedule_text.h"
#include "schedule/op_graph.h"
#include "schedule/op_matches.h"
#include "sim/simulate.h"
#include "tests/sim/round_machine.h"
#include "tests/support/golden_file.h"
#include "tests/support/random_program.h"
#include "tests/support/schedule_builder.h"
#include "traces/trace_check.h"

namespace sluice {
namespace {

// Two nodes with two GPUs each and everything that can be switched on; which part of it depends on the seed.
RoundMachine random_machine(std::mt19937& random) {
    const auto flip = [&] { return random() % 2 == 0; };
    RoundMachine m = round_machine();
    set(m, "nodes", 2);
    set(m, "gpus_per_node", 2);
    set(m, "numa_nodes", flip() ? 1 : 2);
    set(m, "gpus_per_switch", flip() ? 1 : 2);
    set(m, "nics", flip() ? 1 : 2);
    set(m, "duplex", 12);
    set(m, "switch", 10);
    set(m, "dram", 20);
    if (flip()) set(m, "nvlink", 0);
    if (flip()) set(m, "nic_shares_pcie", 0);
    if (flip()) set(m, "bus", 3);
    if (flip()) set(m, "network_bus", 2);
    for (const char* latency : {"pcie_latency", "nvlink_latency", "network_latency", "step_latency"}) {
        if (flip()) set(m, latency, 0.1);
    }
    for (const char* factor : {"slow_copy_out", "slow_copy_in", "slow_collective"}) {
        if (flip()) set(m, factor, 0.7);
    }
    return m;
}

Bytes some_bytes(std::mt19937& random) { return Bytes{static_cast<std::int64_t>(random() % 4) << 29}; }

Compute some_work(std::mt19937& random) {
    Compute work;
    for (std::size_t k = random() % 3; k > 0; --k) {
        work.kernels.push_back({Pointwise{PointwiseKind::kOther, some_bytes(random)}, 1});
    }
    return work;
}

// Four ranks; ops of all kinds, each appended for all partners at once and waiting for earlier ops only: never stuck.
Schedule random_schedule(std::mt19937& random, int steps) {
    ScheduleBuilder b(4);
    std::vector<std::vector<OpId>> of_rank(4);
    const auto rank = [&] { return static_cast<std::uint32_t>(random() % 4); };
    const auto add = [&](std::uint32_t r, Lane lane, Work work) {
        std::vector<OpId> after;
        while (!of_rank[r].empty() && random() % 2 == 0) after.push_back(of_rank[r][random() % of_rank[r].size()]);
        of_rank[r].push_back(b.op(r, lane, std::move(work), {}, after));
    };
    for (int i = 0; i < steps; ++i) {
        const std::uint32_t r = rank();
        switch (random() % 6) {
            case 0:
                add(r, {LaneKind::kCopyOut, kNoRank}, Copy{some_bytes(random)});
                break;
            case 1:
                add(r, {LaneKind::kCopyIn, kNoRank}, Copy{some_bytes(random)});
                break;
            case 2: {
                const std::uint32_t to = (r + 1 + static_cast<std::uint32_t>(random() % 3)) % 4;
                const Bytes bytes = some_bytes(random);
                add(r, {LaneKind::kSend, id_at<Rank>(to)}, Send{bytes});
                add(to, {LaneKind::kReceive, id_at<Rank>(r)}, Receive{bytes});
                break;
            }
            case 3: {
                const Collective work{static_cast<CollectiveKind>(random() % 6), GroupId{0}, some_bytes(random),
                                      1 + static_cast<std::uint32_t>(random() % 2), 0};
                for (std::uint32_t member = 0; member < 4; ++member) {
                    add(member, {LaneKind::kCollective, kNoRank}, work);
                }
                break;
            }
            default:
                add(r, {LaneKind::kCompute, kNoRank}, some_work(random));
                break;
        }
    }
    return std::move(b.schedule);
}

class Rules {
public:
    Rules(const Schedule& schedule, const Trace& trace)
        : schedule_(schedule),
          trace_(trace),
          graph_(schedule),
          matches_(schedule) {}

    void check() const {
        ASSERT_EQ(trace_.events.size(), schedule_.ops.size());
        EXPECT_EQ(check_trace(trace_), "");
        for (const Op& op : schedule_.ops) {
            EXPECT_EQ(event(op.id).op, op.id);
            EXPECT_EQ(event(op.id).begin, earliest(op.id)) << to_text(op);
            check_match(op.id);
            check_blocker(op.id);
        }
    }

private:
    const TraceEvent& event(OpId id) const { return trace_.events[index(id)]; }

    std::vector<OpId> predecessors(OpId id) const {
        std::vector<OpId> all = schedule_.ops[index(id)].after;
        if (graph_.lane_predecessor(id) != kNoOp) all.push_back(graph_.lane_predecessor(id));
        return all;
    }
    Seconds ready(OpId id) const {
        Seconds at{0};
        for (const OpId p : predecessors(id)) at = std::max(at, event(p).end);
        return at;
    }
    Seconds earliest(OpId id) const {
        if (matches_.of(id) == kNoMatch) return ready(id);
        Seconds at{0};
        for (const OpId member : matches_.members(matches_.of(id))) at = std::max(at, ready(member));
        return at;
    }

    void check_match(OpId id) const {
        if (matches_.of(id) == kNoMatch) return;
        for (const OpId member : matches_.members(matches_.of(id))) {
            EXPECT_EQ(event(member).begin, event(id).begin);
            EXPECT_EQ(event(member).end, event(id).end);
        }
    }

    void check_blocker(OpId id) const {
        const TraceEvent& e = event(id);
        switch (e.wait) {
            case Wait::kNone:
                EXPECT_EQ(e.begin, Seconds{0});
                return;
            case Wait::kLane:
                EXPECT_EQ(e.blocker, graph_.lane_predecessor(id));
                break;
            case Wait::kData:
            case Wait::kReuse: {
                const std::vector<OpId>& after = schedule_.ops[index(id)].after;
                EXPECT_NE(std::find(after.begin(), after.end(), e.blocker), after.end());
                break;
            }
            case Wait::kMatch:
                EXPECT_EQ(matches_.of(e.blocker), matches_.of(id));
                EXPECT_LT(ready(id), e.begin);
                EXPECT_EQ(ready(e.blocker), e.begin);
                return;
        }
        EXPECT_EQ(event(e.blocker).end, e.begin);
    }

    const Schedule& schedule_;
    const Trace& trace_;
    OpGraph graph_;
    OpMatches matches_;
};

void replay_and_check(const Schedule& schedule, const RoundMachine& machine) {
    const Simulation simulation = simulate(schedule, machine.cluster, machine.calibration);
    ASSERT_TRUE(simulation.stuck.empty()) << simulation.stuck.front().message;
    Rules(schedule, simulation.trace).check();
}

TEST(ReplayRules, RandomSchedulesOnRandomMachines) {
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
        std::mt19937 random(seed);
        const RoundMachine machine = random_machine(random);
        const Schedule schedule = random_schedule(random, 40);
        replay_and_check(schedule, machine);
        if (HasFailure()) FAIL() << "seed " << seed << "\n" << to_text(schedule);
    }
}

TEST(ReplayRules, SchedulesWrittenByHand) {
    RoundMachine machine = round_machine();
    set(machine, "slow_copy_in", 0.9);
    set(machine, "step_latency", 0.0001);
    for (const char* name : {"multiplexed", "four_stages_eight_subsequences", "two_stages", "offload"}) {
        SCOPED_TRACE(name);
        const std::string file = std::string("schedules/") + name + ".txt";
        replay_and_check(parse_schedule(read_file(golden_path(file), 1_MiB), file), machine);
    }
}

// In the multiplexed step each rank computes while the plain pipeline would leave it idle: r1 begins with its half of
// the left boundary before r0 has finished subsequence 0, and r0 still computes its half of the right one when r1 does.
TEST(ReplayRules, MultiplexedPartsOverlap) {
    const std::string file = "schedules/multiplexed.txt";
    const Schedule schedule = parse_schedule(read_file(golden_path(file), 1_MiB), file);
    const RoundMachine machine = round_machine();
    const Trace trace = simulate(schedule, machine.cluster, machine.calibration).trace;
    const auto overlap = [&](std::int32_t stage, std::int32_t subsequence) {
        for (const TraceEvent& a : trace.events) {
            for (const TraceEvent& b : trace.events) {
                const auto part_of = [&](const TraceEvent& e, std::int32_t part) {
                    return trace.lanes[e.lane].role == LaneRole::kCompute && e.stage == stage &&
                           e.subsequence == subsequence && e.part == part;
                };
                if (part_of(a, 0) && part_of(b, 1) && a.begin < b.end && b.begin < a.end) return true;
            }
        }
        return false;
    };
    EXPECT_TRUE(overlap(0, 0));
    EXPECT_TRUE(overlap(1, 3));
}

// Rule 5: bytes that placement gave to two buffers never live twice, whatever the clock says.
TEST(ReplayRules, LiveBytesStayInsideTheArenaOfPlacement) {
    for (std::uint32_t seed = 0; seed < 30; ++seed) {
        std::mt19937 random(seed);
        Schedule schedule = random_program(seed, {.ranks = 2, .ops = 30, .buffers = 4});
        make_race_free(schedule);
        for (Op& op : schedule.ops) {
            if (auto* copy = std::get_if<Copy>(&op.work)) copy->bytes = some_bytes(random);
            if (auto* compute = std::get_if<Compute>(&op.work)) *compute = some_work(random);
        }
        place_memory(schedule);
        const RoundMachine machine = random_machine(random);
        const Trace trace = simulate(schedule, machine.cluster, machine.calibration).trace;
        ASSERT_FALSE(trace.memory.empty());
        for (const MemorySample& sample : trace.memory) {
            EXPECT_LE(sample.live, trace.pools[sample.pool].arena) << "seed " << seed;
            EXPECT_GE(sample.live, Bytes{0});
        }
    }
}

}  // namespace
}  // namespace sluice
