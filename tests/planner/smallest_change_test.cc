#include "planner/smallest_change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "planner/search.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

bool something_fits(const Scenario& s) { return search(s).front().verdict == Verdict::kFinalist; }

const Change& find(const std::vector<Change>& changes, std::string_view what) {
    return *std::find_if(changes.begin(), changes.end(), [&](const Change& c) { return c.what == what; });
}

// Too large for four GPUs in every way, with a network that more nodes can use.
Scenario too_long() {
    Scenario s = small_scenario(2, 2, 2);
    s.model.layers = 16;
    s.sequence = Tokens{16384};
    s.cluster.gpu.memory = 160_MiB;
    s.cluster.network.nics = 1;
    s.policy.partition.alignment = Tokens{64};
    return s;
}

Scenario short_host() {
    Scenario s = small_scenario(2, 2, 4);
    s.cluster.gpu.memory = 90_MiB;
    s.cluster.host.memory = 1_MiB;
    s.policy.partition.alignment = Tokens{64};
    return s;
}

Scenario long_subsequences() {
    Scenario s = small_scenario(2, 2, 1);
    s.cluster.gpu.memory = 90_MiB;
    s.policy.partition.alignment = Tokens{64};
    return s;
}

// Layers recomputed as a whole: offered where three-way as it is does not fit, and not twice.
TEST(SmallestChange, RecomputesLayersWhereLessDoesNotDo) {
    Scenario s = short_host();
    s.policy.placement = ThreeWay{};
    for (Bytes memory = 90_MiB; something_fits(s); memory -= 1_MiB) s.cluster.gpu.memory = memory;
    EXPECT_EQ(find(smallest_changes(s), "more recompute").how, "recompute layer");
    s.policy.placement = AdaptiveOffload{};
    const std::vector<Change> changes = smallest_changes(s);
    const Change& change = find(changes, "more recompute");
    EXPECT_EQ(change.how, "placement three-way, recompute layer");
    ASSERT_TRUE(change.fit);
    EXPECT_TRUE(change.fit->candidate.scenario.recomputes_layers());
    s.policy.placement = ThreeWay{}, s.policy.recompute = RecomputeScope::kLayer;
    EXPECT_TRUE(something_fits(s));
}

TEST(SmallestChange, EachFitsAndOneStepLessDoesNot) {
    for (const Scenario& s : {too_long(), short_host(), long_subsequences()}) {
        ASSERT_FALSE(something_fits(s));
        int helping = 0;
        for (const Change& change : smallest_changes(s)) {
            EXPECT_FALSE(change.how.empty()) << change.what;
            if (!change.fit) continue;
            ++helping;
            EXPECT_TRUE(something_fits(change.fit->candidate.scenario)) << change.what << ": " << change.how;
            EXPECT_GT(change.estimate, Seconds{0}) << change.what;
            if (change.before) {
                EXPECT_FALSE(something_fits(*change.before)) << change.what << ": " << change.how;
            }
        }
        EXPECT_GT(helping, 1);
    }
}

TEST(SmallestChange, SaysWhichAlone) {
    const std::vector<Change> changes = smallest_changes(short_host());
    EXPECT_EQ(find(changes, "more host memory").how, "1 GiB per node");
    EXPECT_EQ(find(changes, "more GPUs").how, "cluster small has no network between nodes");
    EXPECT_EQ(find(changes, "offload").how, "the placement offloads all it can");
    EXPECT_TRUE(find(changes, "shorter sequence").fit.has_value());
    EXPECT_TRUE(find(smallest_changes(long_subsequences()), "more subsequences").fit.has_value());
    EXPECT_TRUE(find(smallest_changes(too_long()), "more GPUs").fit.has_value());
}

TEST(SmallestChange, WhatCannotHelpAloneSaysSo) {
    Scenario s = short_host();
    s.cluster.gpu.memory = 8_MiB;  // not even the weights
    const std::vector<Change> changes = smallest_changes(s);
    EXPECT_EQ(find(changes, "more subsequences").how, "no number of subsequences up to 32 fits");
    EXPECT_EQ(find(changes, "more host memory").how, "no amount up to 1 PiB per node fits");
    EXPECT_FALSE(find(changes, "more host memory").fit.has_value());
    EXPECT_EQ(find(changes, "shorter sequence").how, "no length fits");
}

}  // namespace
}  // namespace sluice
