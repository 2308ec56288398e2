#include "planner/max_length.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "planner/lower.h"
#include "scenarios/scenario.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

constexpr Tokens kStep{1024};

// sp 2 x pp 2 and four subsequences on GPUs of 96 MiB: some ten thousand tokens fit.
Scenario fixed_choices() {
    Scenario s = small_scenario();
    s.cluster.gpu.memory = 96_MiB;
    s.policy.partition.alignment = kStep;
    return s;
}

Scenario short_host() {
    Scenario s = fixed_choices();
    s.cluster.host.memory = 100_MiB;
    return s;
}

Scenario open_choices() {
    Scenario s = fixed_choices();
    s.policy.sp = s.policy.pp = s.policy.n = 1;
    s.policy.automatic = {true, true, true, true, false};
    return s;
}

struct Case {
    std::string name;
    Scenario scenario;
};

std::vector<Case> cases() {
    return {{"fixed choices", fixed_choices()}, {"short host memory", short_host()}, {"open choices", open_choices()}};
}

// By the real search, which places, verifies and prices.
bool something_fits(Scenario s, std::int64_t steps) {
    s.sequence = Tokens{steps * kStep.value};
    return search(s).front().verdict == Verdict::kFinalist;
}

TEST(MaxLength, AgreesWithTryingEveryLength) {
    for (const auto& [name, scenario] : cases()) {
        const MaxLength found = max_length(scenario);
        ASSERT_TRUE(found.longest.has_value()) << name;
        ASSERT_TRUE(found.failing.has_value()) << name;
        EXPECT_EQ(found.step, kStep) << name;
        const std::int64_t steps = found.longest->candidate.scenario.sequence.value / kStep.value;
        EXPECT_GT(steps, 5) << name;
        std::int64_t longest = 0;
        for (std::int64_t k = 1; k <= steps + steps / 4; ++k)
            if (something_fits(scenario, k)) longest = k;
        EXPECT_LE(std::abs(longest - steps), 1) << name;
    }
}

std::int64_t longest(const Scenario& s) {
    const MaxLength found = max_length(s);
    return found.longest ? found.longest->candidate.scenario.sequence.value : 0;
}

TEST(MaxLength, TheLongestFitsAndTheNextDoesNot) {
    for (const auto& [name, scenario] : cases()) {
        const MaxLength found = max_length(scenario);
        const Scenario& longest = found.longest->candidate.scenario;
        EXPECT_TRUE(plan_step(longest).feasible()) << name;
        EXPECT_EQ(found.failing->candidate.scenario.sequence, longest.sequence + kStep) << name;
        EXPECT_FALSE(something_fits(scenario, longest.sequence.value / kStep.value + 1)) << name;
        const MemoryNeed* worst = worst_need(found.failing->memory);
        ASSERT_NE(worst, nullptr) << name;
        EXPECT_EQ(worst->space, name == "short host memory" ? Space::kHost : Space::kDevice) << name;
        EXPECT_TRUE(largest_kind(*worst).has_value()) << name;
    }
}

// A GPU and a host that are both small: what the amounts come to in whole tensors and in an arena decides, and the
// searches for what fits and for what is fastest go other ways. One of these once ended with an internal error.
TEST(MaxLength, TheLongestFitsWhereBothMemoriesAreShort) {
    Scenario s = read_scenario(std::string(SLUICE_SOURCE_DIR) + "/scenarios/dense-3b-512k-h200x1.yaml");
    s.model.layers = 7, s.policy.n = 8;
    s.cluster.gpu.memory = Bytes{(143155_MiB).value / 4 + (1 << 30)};
    s.cluster.host.memory = 3200_MiB, s.cluster.host.reserved = 0_B;
    const MaxLength found = max_length(s);
    ASSERT_TRUE(found.longest.has_value());
    EXPECT_TRUE(plan_step(found.longest->candidate.scenario).feasible());
    ASSERT_TRUE(found.failing.has_value());
    EXPECT_FALSE(plan_step(found.failing->candidate.scenario).feasible());
}

// The length at which a whole step was run on one H200 (validation/h200.md): another one is to be run before it is
// named.
TEST(MaxLength, OfAnH200IsTheOneThatWasRun) {
    const Scenario s = read_scenario(std::string(SLUICE_SOURCE_DIR) + "/scenarios/dense-7b4-1m-h200x1.yaml");
    EXPECT_EQ(longest(s), 1'081'600);
}

TEST(MaxLength, WhatLengthsAreMultiplesOf) {
    EXPECT_EQ(length_step(fixed_choices()), kStep);
    Scenario s = open_choices();
    s.policy.automatic.alignment = true;
    EXPECT_EQ(length_step(s), Tokens{4});
    s.cluster.gpus_per_node = 24;  // sp 3, 6, 12 and 24 do not divide eight heads
    s.model.layers = 24;
    EXPECT_EQ(length_step(s), Tokens{8});
}

TEST(MaxLength, NothingFits) {
    Scenario s = fixed_choices();
    s.cluster.gpu.memory = 1_MiB;
    const MaxLength found = max_length(s);
    EXPECT_FALSE(found.longest.has_value());
    ASSERT_TRUE(found.failing.has_value());
    EXPECT_NE(worst_need(found.failing->memory), nullptr);
}

TEST(MaxLength, GrowsWithMemory) {
    for (const auto& [name, scenario] : cases()) {
        std::int64_t before = 0;
        for (const Bytes gpu : {40_MiB, 57_MiB, 80_MiB, 96_MiB, 113_MiB, 160_MiB}) {
            Scenario s = scenario;
            s.cluster.gpu.memory = gpu;
            const std::int64_t now = longest(s);
            EXPECT_GE(now, before) << name << ", GPU memory of " << gpu.value;
            before = now;
        }
        before = 0;
        for (const Bytes host : {1_MiB, 30_MiB, 77_MiB, 150_MiB, 300_MiB, 2048_MiB}) {
            Scenario s = scenario;
            s.cluster.host.memory = host;
            const std::int64_t now = longest(s);
            EXPECT_GE(now, before) << name << ", host memory of " << host.value;
            before = now;
        }
    }
}

struct Policies {
    PlacementPolicy placement;
    Granularity granularity;
    RecomputeScope recompute = RecomputeScope::kAllButAttention;
};

// What `only_fit` finds to fit is found by the whole plan, and nothing else, over random limits.
TEST(OnlyFit, AgreesWithTheWholePlan) {
    std::mt19937_64 random(7);
    const auto between = [&](std::uint64_t low, std::uint64_t high) {
        return static_cast<std::int64_t>(low + random() % (high - low + 1));
    };
    const Policies all[] = {{AdaptiveOffload{}, Granularity::kStage},
                            {AdaptiveOffload{}, Granularity::kLayer},
                            {ThreeWay{}, Granularity::kLayer},
                            {ThreeWay{}, Granularity::kLayer, RecomputeScope::kLayer}};
    for (const Policies& policies : all) {
        int fitting = 0;
        for (int k = 0; k < 60; ++k) {
            const std::int64_t pp = std::int64_t{1} << between(0, 2);
            Scenario s = small_scenario(2, pp, between(1, 8));
            s.policy.placement = policies.placement, s.policy.granularity = policies.granularity;
            s.policy.recompute = policies.recompute;
            s.sequence = Tokens{2048 * between(2, 8)};
            s.cluster.gpu.memory = Bytes{between(60, 200) << 20};
            s.cluster.host.memory = Bytes{between(1, 200) << 20};
            LowerOptions only_fit;
            only_fit.only_fit = true;
            const bool fits = plan_step(s).feasible();
            EXPECT_EQ(plan_step(s, only_fit).feasible(), fits) << &policies - all << ", " << k;
            fitting += fits ? 1 : 0;
        }
        EXPECT_GT(fitting, 10);
        EXPECT_LT(fitting, 55);
    }
}

}  // namespace
}  // namespace sluice
