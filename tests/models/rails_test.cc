#include "models/rails.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

Cluster cluster(std::int64_t nics) {
    Cluster c;
    c.nodes = 4;
    c.gpus_per_node = 4;
    c.network.nics = nics;
    return c;
}

std::vector<Rank> ranks(const std::vector<std::uint32_t>& ids) {
    std::vector<Rank> all;
    for (const std::uint32_t id : ids) all.push_back(Rank{id});
    return all;
}

// The gates of every member, "in-out" per rail, then its sharers.
std::string text(const Rails& rails) {
    std::string all;
    for (std::size_t m = 0; m < rails.sharers.size(); ++m) {
        for (std::size_t r = 0; r < rails.count; ++r) {
            const RailGate& gate = rails.gate(m, r);
            all += fmt::format("{}-{} ", index(gate.in), index(gate.out));
        }
        all += fmt::format("x{}{}", rails.sharers[m], m + 1 < rails.sharers.size() ? ", " : "");
    }
    return all;
}

TEST(Rails, AdaptersServeTheGpusOfANodeInOrder) {
    struct Case {
        std::int64_t nics;
        std::vector<std::int64_t> adapter_of_gpu;
    };
    for (const Case& c : {Case{0, {0, 0, 0, 0}}, Case{1, {0, 0, 0, 0}}, Case{2, {0, 0, 1, 1}}, Case{4, {0, 1, 2, 3}},
                          Case{8, {0, 2, 4, 6}}, Case{3, {0, 0, 1, 2}}}) {
        for (std::int64_t gpu = 0; gpu < 4; ++gpu) {
            EXPECT_EQ(adapter_of(gpu, cluster(c.nics)), c.adapter_of_gpu[static_cast<std::size_t>(gpu)]) << c.nics;
        }
    }
}

TEST(Rails, OnePerAdapterThatTheGroupUsesOnEveryNode) {
    struct Case {
        const char* what;
        std::int64_t nics;
        std::vector<std::uint32_t> members;
        std::string expected;
    };
    const std::vector<Case> cases = {
        {"two whole nodes, a GPU each",
         4,
         {0, 1, 2, 3, 4, 5, 6, 7},
         "0-0 1-1 2-2 3-3 x1, 0-0 1-1 2-2 3-3 x1, 0-0 1-1 2-2 3-3 x1, 0-0 1-1 2-2 3-3 x1, "
         "4-4 5-5 6-6 7-7 x1, 4-4 5-5 6-6 7-7 x1, 4-4 5-5 6-6 7-7 x1, 4-4 5-5 6-6 7-7 x1"},
        {"two GPUs an adapter: in by the first, out by the last",
         2,
         {0, 1, 2, 3, 4, 5, 6, 7},
         "0-1 2-3 x2, 0-1 2-3 x2, 0-1 2-3 x2, 0-1 2-3 x2, 4-5 6-7 x2, 4-5 6-7 x2, 4-5 6-7 x2, 4-5 6-7 x2"},
        {"one rank per node", 4, {1, 5, 9}, "1-1 x1, 5-5 x1, 9-9 x1"},
        {"both ranks of a node on one adapter", 2, {2, 3, 4, 5}, "2-3 x2, 2-3 x2, 4-5 x2, 4-5 x2"},
        {"the node with fewest decides", 4, {0, 1, 2, 4}, "0-0 x1, 0-0 x1, 0-0 x1, 4-4 x1"},
        {"ring order decides who is first, adapters the order of rails",
         2,
         {3, 2, 0, 6, 4},
         "0-0 3-2 x2, 0-0 3-2 x2, 0-0 3-2 x1, 4-4 6-6 x1, 4-4 6-6 x1"},
        {"no network", 0, {0, 1}, "0-1 x2, 0-1 x2"},
    };
    for (const Case& c : cases) EXPECT_EQ(text(rails_of(ranks(c.members), cluster(c.nics))), c.expected) << c.what;
}

TEST(Rails, KnowsWhoSharesANode) {
    const Rails rails = rails_of(ranks({0, 3, 4, 7}), cluster(4));
    EXPECT_EQ(rails.count, 2U);
    EXPECT_TRUE(rails.same_node(0, 1));
    EXPECT_FALSE(rails.same_node(1, 2));
    EXPECT_TRUE(rails.same_node(2, 3));
    EXPECT_EQ(rails_of({}, cluster(4)).count, 1U);
}

}  // namespace
}  // namespace sluice
