#include "planner/offload_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace sluice {
namespace {

std::vector<Bytes> gigabytes(std::initializer_list<double> values) {
    std::vector<Bytes> result;
    for (const double v : values) result.push_back(Bytes{static_cast<std::int64_t>(v * 1e9)});
    return result;
}

// Fits when at every step the recurrence stays within the limit.
OffloadProblem by_recurrence(std::vector<Bytes> activation, std::vector<Bytes> window, Bytes resident, Bytes limit) {
    OffloadProblem problem{activation, std::move(window), Bytes{1'000'000}, {}};
    problem.fits = [=](const std::vector<Bytes>& x) {
        const std::vector<Bytes> m = memory_recurrence(resident, activation, x);
        return *std::max_element(m.begin(), m.end()) <= limit;
    };
    return problem;
}

OffloadProblem by_recurrence_in(std::vector<Bytes> activation, std::vector<Bytes> window, Bytes limit) {
    OffloadProblem problem = by_recurrence(std::move(activation), std::move(window), 0_B, limit);
    problem.quantum = 1_B;
    return problem;
}

// The worked example of a published explanation of SPPO: 80 and 120 GB of activations, 20 GB of K and V, 100 GB of GPU.
TEST(OffloadRule, HundredGigabyteExampleIsInfeasible) {
    const auto a = gigabytes({80, 120});
    EXPECT_EQ(memory_recurrence(Bytes{20'000'000'000}, a, gigabytes({0, 0})).back().value, 220'000'000'000);
    EXPECT_EQ(memory_recurrence(Bytes{20'000'000'000}, a, gigabytes({48, 0})).back().value,
              172'000'000'000);  // alpha 0.6
    const OffloadAmounts amounts =
        choose_offload(by_recurrence(a, gigabytes({48, 0}), Bytes{20'000'000'000}, Bytes{100'000'000'000}));
    EXPECT_FALSE(amounts.feasible);
}

// Re-cut to 50 and 70 GB with a threshold of 40 GB: alpha 0.8, peak 20 + 10 + 70 = 100 GB, just fits. The second one's
// alpha (0.57 by the rule of equal bytes) moves nothing before the peak, so as little as memory demands is none.
TEST(OffloadRule, HundredGigabyteExampleFitsWhenRecut) {
    const auto a = gigabytes({50, 70});
    const OffloadAmounts amounts =
        choose_offload(by_recurrence(a, gigabytes({40, 0}), Bytes{20'000'000'000}, Bytes{100'000'000'000}));
    ASSERT_TRUE(amounts.feasible);
    EXPECT_TRUE(amounts.within_windows);
    EXPECT_EQ(amounts.x, gigabytes({40, 0}));
    EXPECT_DOUBLE_EQ(amounts.x[0] / a[0], 0.8);
    EXPECT_NEAR(Bytes{40'000'000'000} / a[1], 0.57, 0.002);
    EXPECT_EQ(memory_recurrence(Bytes{20'000'000'000}, a, amounts.x).back().value, 100'000'000'000);
}

TEST(OffloadRule, AmpleMemoryMovesNothing) {
    const auto a = gigabytes({8, 6, 5, 4});
    const OffloadAmounts amounts =
        choose_offload(by_recurrence(a, gigabytes({9, 9, 9, 0}), 0_B, Bytes{23'000'000'000}));
    EXPECT_EQ(amounts.x, gigabytes({0, 0, 0, 0}));
}

TEST(OffloadRule, AmountsAreEqualWhereWindowsAllow) {
    const auto a = gigabytes({8, 6, 5, 4});  // 23 in all; 11 must go: 4 + 4 + 3 by the window of the third
    const OffloadAmounts amounts =
        choose_offload(by_recurrence(a, gigabytes({9, 9, 3, 0}), 0_B, Bytes{12'000'000'000}));
    ASSERT_TRUE(amounts.feasible);
    EXPECT_EQ(amounts.x, gigabytes({4, 4, 3, 0}));
}

TEST(OffloadRule, WindowsAreExceededOnlyWhenNothingElseFits) {
    const auto a = gigabytes({8, 6, 5, 4});
    const auto windows = gigabytes({2, 2, 2, 0});
    EXPECT_TRUE(choose_offload(by_recurrence(a, windows, 0_B, Bytes{17'000'000'000})).within_windows);
    const OffloadAmounts amounts = choose_offload(by_recurrence(a, windows, 0_B, Bytes{14'000'000'000}));  // 9 must go
    ASSERT_TRUE(amounts.feasible);
    EXPECT_FALSE(amounts.within_windows);
    EXPECT_EQ(amounts.x, gigabytes({3, 3, 3, 0}));  // each by 1, not one by 3
}

// Every problem with up to 4 subsequences of up to 3 units and random prefix constraints, against enumeration: fewest
// bytes within the windows, and among those the most equal amounts (largest first, compared as in a dictionary).
TEST(OffloadRule, AgreesWithEnumeration) {
    std::mt19937 random(7);
    int constrained = 0;
    for (int round = 0; round < 3000; ++round) {
        const std::size_t n = 1 + random() % 4;
        std::vector<Bytes> a(n), window(n), need(n);
        for (std::size_t i = 0; i < n; ++i) {
            a[i] = Bytes{static_cast<std::int64_t>(random() % 4)};
            window[i] = Bytes{static_cast<std::int64_t>(random() % 4)};
            need[i] = Bytes{static_cast<std::int64_t>(random() % 6)};
        }
        OffloadProblem problem{a, window, 1_B, {}};
        problem.fits = [&](const std::vector<Bytes>& x) {
            Bytes sum{};
            for (std::size_t i = 0; i < n; ++i)
                if (sum += x[i]; sum < need[i]) return false;
            return true;
        };
        std::vector<Bytes> best;
        std::vector<std::int64_t> best_key;
        std::vector<Bytes> x(n);
        for (std::size_t code = 0; code < (std::size_t{1} << (2 * n)); ++code) {
            bool inside = true;
            for (std::size_t i = 0; i < n; ++i) {
                x[i] = Bytes{static_cast<std::int64_t>(code >> (2 * i) & 3)};
                inside &= x[i] <= std::min(a[i], window[i]);
            }
            if (!inside || !problem.fits(x)) continue;
            std::vector<std::int64_t> key;
            for (const Bytes b : x) key.push_back(-b.value);
            std::sort(key.begin(), key.end());
            for (std::int64_t& k : key) k = -k;
            key.insert(key.begin(), std::accumulate(x.begin(), x.end(), Bytes{}).value);
            if (best.empty() || key < best_key) best = x, best_key = key;
        }
        const OffloadAmounts amounts = choose_offload(problem);
        ASSERT_EQ(amounts.feasible && amounts.within_windows, !best.empty());
        if (best.empty()) continue;
        ++constrained;
        std::vector<std::int64_t> key;
        for (const Bytes b : amounts.x) key.push_back(-b.value);
        std::sort(key.begin(), key.end());
        for (std::int64_t& k : key) k = -k;
        key.insert(key.begin(), std::accumulate(amounts.x.begin(), amounts.x.end(), Bytes{}).value);
        ASSERT_EQ(key, best_key) << "round " << round;
    }
    EXPECT_GT(constrained, 500);
}

// SPPO Fig. 8: four subsequences whose activations shrink (3, 2, 2, 1 units, the figure's own sizes as we read them)
// and a link that moves one unit per step. "Memory pressure peaks at 7 activation units when S0 offloading persists
// through S2"; adaptive moves what one step hides, and peaks at 5.
TEST(OffloadRule, FigureEight) {
    const std::vector<std::int64_t> a{3, 2, 2, 1};
    // Full offload: copies follow one another; a subsequence leaves when its whole copy has ended.
    std::int64_t peak = 0, copied = 0;
    for (std::size_t step = 0; step < a.size(); ++step) {
        std::int64_t live = 0, leaves_at = 0;
        for (std::size_t i = 0; i <= step; ++i) {
            live += a[i];
            leaves_at += a[i];  // units that have to go through the link before this one is out
            if (leaves_at <= copied) live -= a[i];
        }
        peak = std::max(peak, live);
        ++copied;  // the link's unit of this step
        EXPECT_EQ(live == 7, step == 2);
    }
    EXPECT_EQ(peak, 7);

    std::vector<Bytes> units;
    for (const std::int64_t u : a) units.push_back(Bytes{u});
    const OffloadAmounts amounts = choose_offload(by_recurrence_in(units, {1_B, 1_B, 1_B, 0_B}, 5_B));
    ASSERT_TRUE(amounts.feasible);
    EXPECT_TRUE(amounts.within_windows);
    EXPECT_EQ(amounts.x, (std::vector<Bytes>{1_B, 1_B, 1_B, 0_B}));
    EXPECT_EQ(memory_recurrence(0_B, units, amounts.x), (std::vector<Bytes>{3_B, 4_B, 5_B, 5_B}));
    EXPECT_FALSE(choose_offload(by_recurrence_in(units, {1_B, 1_B, 1_B, 0_B}, 4_B)).within_windows);  // 5 is the least
}

}  // namespace
}  // namespace sluice
