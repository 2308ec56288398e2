// The three-way rule against enumeration of every choice, and its bound where it does not try all.
#include "planner/three_way.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

namespace sluice {
namespace {

using Layers = std::vector<std::int64_t>;
using Amounts = std::vector<Bytes>;

// Forward makes A_0, A_1, ...; at moment k the subsequences up to k hold memory, those before k without what was moved.
// `limit` is what they may hold together.
struct Case {
    std::vector<std::int64_t> activation, cheap, window, growth;
    std::vector<double> cost;
    std::int64_t layers = 1, limit = 0, host = 0;
    double exposure = 1;

    std::size_t n() const { return activation.size(); }
    std::int64_t rest(std::size_t i, const Layers& r) const { return activation[i] - r[i] * cheap[i]; }
    bool fits(const Amounts& x, const Layers& r) const {
        std::int64_t gone = 0, held = 0;
        for (std::size_t k = 0; k < n(); ++k) {
            held += rest(k, r);
            if (held - gone > limit) return false;
            gone += x[k].value;
        }
        return true;
    }
    std::int64_t window_of(std::size_t i, std::int64_t next) const {
        return i + 1 < n() ? window[i] + growth[i] * next : 0;
    }
    ThreeWayProblem problem(std::size_t most_tried) const {
        ThreeWayProblem p;
        for (std::size_t i = 0; i < n(); ++i) {
            p.activation.push_back(Bytes{activation[i]});
            p.cheap.push_back(Bytes{cheap[i]});
            p.recompute.push_back(Seconds{cost[i]});
        }
        p.layers = layers, p.exposed = BytesPerSecond{1 / exposure}, p.host = Bytes{host}, p.quantum = 1_B,
        p.most_tried = most_tried;
        p.window = [this](std::size_t i, std::int64_t next) { return Bytes{window_of(i, next)}; };
        p.fits = [this](const Amounts& x, const Layers& r) { return fits(x, r); };
        p.shortages = [this](const Amounts& x) { return shortages(x); };
        return p;
    }
    std::vector<Shortage> shortages(const Amounts& x) const {
        std::vector<Shortage> found;
        std::int64_t gone = 0, held = 0;
        for (std::size_t k = 0; k < n(); ++k) {
            held += activation[k];
            Shortage s{Bytes{held - gone - limit}, std::vector(n(), Shortage::Holds::kNothing)};
            for (std::size_t i = 0; i < k; ++i) s.holds[i] = Shortage::Holds::kRest;
            s.holds[k] = Shortage::Holds::kAll;
            if (s.bytes.value > 0) found.push_back(s);
            gone += x[k].value;
        }
        return found;
    }
    double added(const Amounts& x, const Layers& r) const {
        double sum = 0;
        for (std::size_t i = 0; i < n(); ++i) {
            const std::int64_t hides = window_of(i, i + 1 < n() ? r[i + 1] : 0);
            sum += static_cast<double>(r[i]) * cost[i] +
                   exposure * static_cast<double>(std::max<std::int64_t>(0, x[i].value - hides));
        }
        return sum;
    }
};

Case random_case(std::mt19937& random) {
    const auto upto = [&](std::uint32_t most) { return static_cast<std::int64_t>(random() % (most + 1)); };
    Case c;
    const std::size_t n = 1 + random() % 4;
    c.layers = 1 + upto(1);
    c.exposure = static_cast<double>(1 << upto(3));  // its inverse is exact
    for (std::size_t i = 0; i < n; ++i) {
        c.cheap.push_back(upto(2));
        c.activation.push_back(c.layers * c.cheap.back() + 1 + upto(2));
        c.window.push_back(upto(3));
        c.growth.push_back(upto(1));
        c.cost.push_back(static_cast<double>(1 + upto(9)));
    }
    const std::int64_t all = std::accumulate(c.activation.begin(), c.activation.end(), std::int64_t{0});
    c.limit = 1 + upto(static_cast<std::uint32_t>(all));
    c.host = upto(3) == 0 ? upto(static_cast<std::uint32_t>(all)) : all;
    return c;
}

struct Best {
    bool feasible = false;
    double added = 0;
    std::int64_t layers = 0, moved = 0;
};

// Calls `visit` with every vector whose entries run from 0 to their `most`.
template <class Visit>
void for_each_vector(const std::vector<std::int64_t>& most, Visit visit) {
    std::vector<std::int64_t> v(most.size(), 0);
    while (true) {
        visit(v);
        std::size_t i = 0;
        while (i < v.size() && v[i] == most[i]) v[i++] = 0;
        if (i == v.size()) return;
        ++v[i];
    }
}

Best enumerate(const Case& c) {
    Best best;
    std::vector<std::int64_t> most_layers;
    for (std::size_t i = 0; i < c.n(); ++i) most_layers.push_back(c.cheap[i] > 0 ? c.layers : 0);
    for_each_vector(most_layers, [&](const Layers& r) {
        std::vector<std::int64_t> most;
        for (std::size_t i = 0; i < c.n(); ++i) most.push_back(c.rest(i, r));
        for_each_vector(most, [&](const std::vector<std::int64_t>& moved) {
            Amounts x;
            for (const std::int64_t m : moved) x.push_back(Bytes{m});
            const std::int64_t sum = std::accumulate(moved.begin(), moved.end(), std::int64_t{0});
            if (sum > c.host || !c.fits(x, r)) return;
            const Best here{true, c.added(x, r), std::accumulate(r.begin(), r.end(), std::int64_t{0}), sum};
            if (!best.feasible ||
                std::tie(here.added, here.layers, here.moved) < std::tie(best.added, best.layers, best.moved))
                best = here;
        });
    });
    return best;
}

TEST(ThreeWay, EqualsEnumeration) {
    std::mt19937 random(11);
    int compared = 0, recomputing = 0, exposing = 0, both = 0, impossible = 0;
    while (compared < 600) {
        const Case c = random_case(random);
        const Best best = enumerate(c);
        const ThreeWayChoice choice = choose_three_way(c.problem(1024));
        ASSERT_EQ(choice.feasible, best.feasible) << "case " << compared;
        impossible += !best.feasible;
        if (!best.feasible && impossible > 100) continue;
        ++compared;
        if (!best.feasible) continue;
        EXPECT_DOUBLE_EQ(choice.added.value, best.added) << "case " << compared;
        EXPECT_DOUBLE_EQ(choice.bound.value, best.added);
        EXPECT_DOUBLE_EQ(c.added(choice.x, choice.r), choice.added.value) << "as the rule accounts for it";
        EXPECT_TRUE(c.fits(choice.x, choice.r));
        EXPECT_EQ(std::accumulate(choice.r.begin(), choice.r.end(), std::int64_t{0}), best.layers);
        Bytes moved{};
        for (const Bytes b : choice.x) moved += b;
        EXPECT_EQ(moved.value, best.moved) << "case " << compared;
        recomputing += best.layers > 0, exposing += best.added > 0 && best.layers == 0;
        both += best.layers > 0 && best.moved > 0;
    }
    EXPECT_GT(recomputing, 50);
    EXPECT_GT(exposing, 20);
    EXPECT_GT(both, 50);
}

// Where not all vectors are tried: never better than the best, never below its own bound, and the bound holds.
TEST(ThreeWay, BoundHoldsWhereNotAllAreTried) {
    std::mt19937 random(12);
    int compared = 0, exact = 0;
    double gap = 0, total = 0;
    while (compared < 600) {
        const Case c = random_case(random);
        const Best best = enumerate(c);
        const ThreeWayChoice choice = choose_three_way(c.problem(1));
        EXPECT_LE(choice.feasible, best.feasible);
        if (!best.feasible) continue;
        ++compared;
        ASSERT_TRUE(choice.feasible) << "case " << compared;
        EXPECT_TRUE(c.fits(choice.x, choice.r));
        EXPECT_GE(choice.added.value, best.added - 1e-9);
        EXPECT_LE(choice.bound.value, best.added + 1e-9) << "case " << compared;
        exact += choice.added.value <= best.added + 1e-9;
        gap += choice.added.value - best.added, total += best.added;
    }
    EXPECT_GT(exact, compared * 7 / 10);
    EXPECT_LT(gap, 0.2 * total);
    RecordProperty("exact", exact);
}

}  // namespace
}  // namespace sluice
