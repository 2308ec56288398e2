#include "schedule/pack_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace sluice {
namespace {

bool meet(const PackItem& a, const PackItem& b) { return a.first <= b.last && b.first <= a.last; }

void expect_sound(const std::vector<PackItem>& items, const Packing& packing) {
    Bytes height{};
    for (std::size_t i = 0; i < items.size(); ++i) {
        ASSERT_GE(packing.offsets[i], 0_B);
        height = std::max(height, packing.offsets[i] + items[i].size);
        for (std::size_t j = 0; j < i; ++j) {
            if (!meet(items[i], items[j])) continue;
            ASSERT_TRUE(packing.offsets[i] + items[i].size <= packing.offsets[j] ||
                        packing.offsets[j] + items[j].size <= packing.offsets[i])
                << "items " << j << " and " << i;
        }
    }
    ASSERT_EQ(packing.height, height);
}

Bytes live_peak(const std::vector<PackItem>& items) {
    Bytes peak{};
    for (const PackItem& at : items) {
        Bytes live{};
        for (const PackItem& item : items)
            if (item.first <= at.first && at.first <= item.last) live += item.size;
        peak = std::max(peak, live);
    }
    return peak;
}

// Lowest fit, longest life first, with a plain scan of everything placed: what the skipping search must agree with.
Bytes plain_lowest_fit(const std::vector<PackItem>& items) {
    std::vector<std::size_t> order(items.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
        const std::uint32_t x = items[a].last - items[a].first, y = items[b].last - items[b].first;
        return x != y ? x > y : items[a].first < items[b].first;
    });
    std::vector<std::pair<Bytes, std::size_t>> placed;  // offset, item; sorted
    Bytes height{};
    for (const std::size_t i : order) {
        Bytes low{};
        for (const auto& [offset, other] : placed) {
            if (!meet(items[i], items[other])) continue;
            if (offset >= low + items[i].size) break;
            low = std::max(low, offset + items[other].size);
        }
        placed.insert(std::ranges::upper_bound(placed, std::pair{low, i}), {low, i});
        height = std::max(height, low + items[i].size);
    }
    return height;
}

std::vector<PackItem> random_items(std::uint32_t seed, std::size_t count) {
    std::mt19937 random(seed);
    std::vector<PackItem> items;
    for (std::size_t i = 0; i < count; ++i) {
        const auto first = static_cast<std::uint32_t>(random() % 1000);
        const auto length = static_cast<std::uint32_t>(random() % 3 == 0 ? random() % 1000 : random() % 10);
        items.push_back({first, first + length, Bytes{static_cast<std::int64_t>(1 + random() % 20) * 512}});
    }
    return items;
}

TEST(PackArena, IsSoundAndNoHigherThanPlainLowestFit) {
    for (std::uint32_t seed = 0; seed < 30; ++seed) {
        const std::vector<PackItem> items = random_items(seed, seed < 20 ? 10 + seed * 8 : 900);
        const Packing packing = pack_arena(items);
        expect_sound(items, packing);
        EXPECT_GE(packing.height, live_peak(items));
        EXPECT_LE(packing.height, plain_lowest_fit(items)) << "seed " << seed;
    }
}

TEST(PackArena, NothingNeedsNothing) {
    EXPECT_EQ(pack_arena({}).height, 0_B);
    EXPECT_TRUE(pack_arena({}).offsets.empty());
}

// Forward keeps a unit per subsequence until its backward, offloads another, reloads it a little ahead, and has
// workspaces for one op: long lives nest, short ones slide. Lengths shrink, so sizes all differ.
std::vector<PackItem> pipeline_items(std::uint32_t count, std::uint32_t prefetch) {
    std::vector<PackItem> items;
    const std::uint32_t end = 20 * count;
    for (std::uint32_t i = 0; i < count; ++i) {
        const Bytes unit{512 * (400 - std::int64_t{i})};
        const std::uint32_t forward = 10 * i, backward = end - 10 * i;
        items.push_back({forward, backward, unit});          // kept
        items.push_back({forward, forward + 12, unit * 4});  // staged, copied out behind the next forward
        items.push_back({backward - 10 * prefetch, backward + 5, unit * 4});  // reloaded ahead
        for (std::uint32_t step = 0; step < 8; ++step) {
            items.push_back({forward + step, forward + step + 1, unit * 2});  // between ops
            items.push_back({backward + step, backward + step, unit * 3});    // workspace
        }
    }
    return items;
}

TEST(PackArena, IsWithinTwoPercentOfTheLivePeakOnPipelines) {
    for (const std::uint32_t prefetch : {1U, 2U, 3U, 5U}) {
        const std::vector<PackItem> items = pipeline_items(128, prefetch);
        const Packing packing = pack_arena(items);
        expect_sound(items, packing);
        EXPECT_LE(packing.height / live_peak(items), 1.02) << "prefetch " << prefetch;
    }
}

}  // namespace
}  // namespace sluice
