// What must hold of keep, offload and recompute on any cluster and model (docs/placement.md), over random small ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/lower.h"
#include "planner/step_estimate.h"
#include "schedule/verify.h"
#include "tests/support/random_scenario.h"
#include "tests/support/undecided_step.h"

namespace sluice {
namespace {

Bytes moved(const Plan& plan) {
    Bytes sum{};
    for (const StagePlan& stage : plan.stages)
        for (const Bytes x : stage.offloaded) sum += x;
    return sum;
}

bool recomputes(const Plan& plan) {
    return std::any_of(plan.stages.begin(), plan.stages.end(), [](const StagePlan& s) { return s.recomputes(); });
}

Bytes copied_of(const Schedule& schedule, BufferKind kind) {
    Bytes sum{};
    for (const Op& op : schedule.ops)
        if (std::holds_alternative<Copy>(op.work))
            for (const Access& access : op.accesses) {
                const Buffer& buffer = schedule.buffers[index(access.buffer)];
                if (buffer.kind == kind && buffer.space == Space::kDevice) sum += buffer.bytes;
            }
    return sum;
}

// The GPU memory that a scenario needs with everything kept, and with as much as possible made again.
Bytes arena(const Scenario& s) {
    Bytes most{};
    for (const Buffer& b : lower(s).schedule.buffers)
        if (b.space == Space::kDevice && b.offset) most = std::max(most, *b.offset + b.bytes);
    return most;
}

Scenario with_placement(Scenario s, PlacementPolicy placement) {
    s.policy.placement = placement;
    return s;
}

// `share` of the way from what recomputing everything needs to what keeping everything needs.
Scenario with_tight_memory(Scenario s, double share) {
    s.cluster.gpu.memory = 1024_GiB;
    const Bytes kept = arena(with_placement(s, KeepAll{}));
    const Bytes remade = std::min(kept, arena(with_placement(s, RecomputeAll{})));
    s.cluster.gpu.memory =
        remade + Bytes{static_cast<std::int64_t>(share * static_cast<double>((kept - remade).value))};
    return s;
}

void set_host_link(Scenario& s, BytesPerSecond rate) {
    Pcie& pcie = s.cluster.pcie;
    pcie.d2h = pcie.h2d = pcie.duplex = pcie.switch_d2h = pcie.switch_h2d = rate;
}

TEST(PlacementProperties, AmpleMemoryKeepsEverything) {
    std::mt19937 random(1);
    for (int round = 0; round < 60; ++round) {
        Scenario s = random_scenario(random);
        s.cluster.gpu.memory = 1024_GiB;
        for (const PlacementPolicy& placement : {PlacementPolicy{AdaptiveOffload{}}, PlacementPolicy{ThreeWay{}}}) {
            const PlannedStep step = plan_step(with_placement(s, placement));
            ASSERT_TRUE(step.feasible());
            EXPECT_EQ(moved(step.plan), 0_B);
            EXPECT_FALSE(recomputes(step.plan));
        }
    }
}

// Where memory is short, the three-way rule always finds a way that the two-way one finds, and one no slower by its own
// account; what it lowers is valid.
TEST(PlacementProperties, ThreeWayIsNeverWorseThanAdaptive) {
    std::mt19937 random(2);
    int tight = 0, recomputing = 0;
    for (int round = 0; round < 80; ++round) {
        const Scenario s = with_tight_memory(random_scenario(random), 0.1 + 0.2 * static_cast<double>(round % 4));
        const PlannedStep two = plan_step(with_placement(s, AdaptiveOffload{}));
        const Lowered three = lower(with_placement(s, ThreeWay{}));
        const PlannedStep step = plan_step(with_placement(s, ThreeWay{}));
        EXPECT_GE(step.feasible(), two.feasible()) << "round " << round;
        if (!step.feasible()) continue;
        EXPECT_TRUE(verify(three.schedule).empty());
        tight += moved(step.plan).value > 0 || recomputes(step.plan);
        recomputing += recomputes(step.plan);
        if (!two.feasible()) continue;
        EXPECT_LE(step.estimate.value, two.estimate.value) << "round " << round;
    }
    EXPECT_GT(tight, 40);
    EXPECT_GT(recomputing, 10);
}

// Host link very slow and recomputing cheap: what has to go is made again, as far as that frees enough.
TEST(PlacementProperties, SlowLinkAndCheapRecomputeGivesRecompute) {
    std::mt19937 random(3);
    int checked = 0;
    for (int round = 0; round < 60; ++round) {
        Scenario s = with_tight_memory(random_scenario(random), 0.5);
        set_host_link(s, BytesPerSecond{1e5});
        if (plan_step(with_placement(s, KeepAll{})).feasible()) continue;  // recomputing saves nothing at the peak
        const PlannedStep step = plan_step(with_placement(s, ThreeWay{}));
        ASSERT_TRUE(step.feasible()) << "round " << round;
        EXPECT_TRUE(recomputes(step.plan)) << "round " << round;
        for (const StagePlan& stage : step.plan.stages)
            for (std::size_t i = 0; i < stage.offloaded.size(); ++i)
                EXPECT_LE(stage.offloaded[i], stage.window[i]) << "round " << round << ": nothing beyond its window";
        ++checked;
    }
    EXPECT_GT(checked, 40);
}

// Host link infinitely fast: nothing is recomputed, every backward-only tensor may go, and K, V and their gradients
// still stay.
TEST(PlacementProperties, InfiniteLinkKeepsKv) {
    std::mt19937 random(4);
    int moving = 0;
    for (int round = 0; round < 60; ++round) {
        Scenario s = with_tight_memory(random_scenario(random), 0.5);
        set_host_link(s, BytesPerSecond{1e18});
        s.cluster.host.bandwidth = BytesPerSecond{1e18};
        s.cluster.pcie.latency = Seconds{};
        const Lowered adaptive = lower(with_placement(s, AdaptiveOffload{}));
        if (!adaptive.feasible()) continue;
        const Lowered three = lower(with_placement(s, ThreeWay{}));
        ASSERT_TRUE(three.feasible()) << "round " << round;
        const bool within =
            std::all_of(adaptive.plan.stages.begin(), adaptive.plan.stages.end(), [](const StagePlan& p) {
                for (std::size_t i = 0; i < p.offloaded.size(); ++i)
                    if (p.offloaded[i] > p.window[i]) return false;
                return true;
            });
        EXPECT_LE(recomputes(three.plan), !within) << "round " << round;
        moving += moved(adaptive.plan).value > 0;
        for (const Schedule* schedule : {&adaptive.schedule, &three.schedule}) {
            EXPECT_EQ(copied_of(*schedule, BufferKind::kKv), 0_B);
            EXPECT_EQ(copied_of(*schedule, BufferKind::kDkv), 0_B);
        }
        const Lowered full = lower(with_placement(s, OffloadAll{}));
        EXPECT_EQ(copied_of(full.schedule, BufferKind::kKv), 0_B);
    }
    EXPECT_GT(moving, 20);
}

// The floor is below what any choice needs: what is below it never fits, whatever fits is above it.
TEST(PlacementProperties, FloorsAreBelowEveryPeak) {
    std::mt19937 random(6);
    for (int round = 0; round < 40; ++round) {
        Scenario s = random_scenario(random);
        s.policy.placement = ThreeWay{};
        UndecidedStep undecided(s);
        auto& [subs, plans, step, context] = undecided;
        for (std::size_t stage = 0; stage < plans.size(); ++stage) {
            const LiveModel& model = context.models[stage];
            const Bytes floor = model.floor();
            for (int draw = 0; draw < 20; ++draw) {
                std::vector<Bytes> x;
                std::vector<std::int64_t> r;
                for (std::size_t k = 0; k < plans[stage].activation.size(); ++k) {
                    const std::int64_t most = layers_per_slot(s, plans[stage]);
                    r.push_back(draw == 0 ? most : static_cast<std::int64_t>(random()) % (most + 1));
                    const Bytes rest = plans[stage].activation[k] - model.cheap()[k] * r.back();
                    x.push_back(draw < 2 ? rest : Bytes{static_cast<std::int64_t>(random()) % (rest.value + 1)});
                }
                EXPECT_LE(floor, model.peak(x, r)) << "round " << round;
            }
        }
    }
}

// One stage: no bubble by the estimate when nothing is copied, and whatever the partition.
TEST(PlacementProperties, OneStageHasNoBubble) {
    std::mt19937 random(5);
    for (int round = 0; round < 30; ++round) {
        Scenario s = random_scenario(random);
        s.cluster.gpu.memory = 1024_GiB;
        s.policy.pp = 1, s.policy.sp = 1, s.policy.order = TraversalOrder::kSubsequenceMajor,
        s.policy.partition.alignment = Tokens{1};
        s.cluster.gpus_per_node = 1;
        const PlannedStep step = plan_step(s);
        ASSERT_TRUE(step.feasible());
        const Seconds compute = estimate_step(step.folded, s).compute.front();
        EXPECT_NEAR(step.estimate.value, compute.value, 1e-9 * compute.value) << "round " << round;
    }
}

}  // namespace
}  // namespace sluice
