#include "schedule/pack_arena.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>

namespace sluice {
namespace {

struct Placed {
    Bytes begin, end;
    std::uint32_t first, last;  // life
};

// Some placed items, consecutive in order of address, with what a search has to know to skip them all.
class Run {
public:
    static constexpr std::size_t kLimit = 128;

    std::vector<Placed> items;  // by begin
    Bytes end{};                // of the highest item

    void add(const Placed& item) {
        items.insert(std::ranges::upper_bound(items, item.begin, {}, &Placed::begin), item);
        summarise();
    }

    Run split() {
        Run upper;
        const auto middle = items.begin() + static_cast<std::ptrdiff_t>(items.size() / 2);
        upper.items.assign(middle, items.end());
        items.erase(middle, items.end());
        summarise();
        upper.summarise();
        return upper;
    }

    // No item is there while the wanted one lives.
    bool all_clear(const PackItem& wanted) const {
        return earliest_first_ > wanted.last || latest_last_ < wanted.first;
    }

    // All items are there, and leave no gap for it between them.
    bool all_full(const PackItem& wanted) const {
        return latest_first_ <= wanted.last && earliest_last_ >= wanted.first && widest_gap_ < wanted.size;
    }

private:
    void summarise() {
        constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
        std::tie(earliest_first_, latest_first_, earliest_last_, latest_last_) = std::tuple{kMax, 0U, kMax, 0U};
        widest_gap_ = {};
        end = items.front().begin;
        for (const Placed& item : items) {
            earliest_first_ = std::min(earliest_first_, item.first);
            latest_first_ = std::max(latest_first_, item.first);
            earliest_last_ = std::min(earliest_last_, item.last);
            latest_last_ = std::max(latest_last_, item.last);
            widest_gap_ = std::max(widest_gap_, item.begin - end);
            end = std::max(end, item.end);
        }
    }

    std::uint32_t earliest_first_ = 0, latest_first_ = 0, earliest_last_ = 0, latest_last_ = 0;
    Bytes widest_gap_{};  // between items if all of them are there
};

// What has been placed so far, by address.
class Arena {
public:
    // The lowest offset at which the item meets nobody.
    Bytes place(const PackItem& item) {
        const Bytes offset = lowest_fit(item);
        insert({offset, offset + item.size, item.first, item.last});
        return offset;
    }

private:
    Bytes lowest_fit(const PackItem& item) const {
        Bytes low{};
        for (const Run& run : runs_) {
            if (run.items.front().begin >= low + item.size) return low;
            if (run.all_clear(item)) continue;
            if (run.all_full(item)) {
                low = std::max(low, run.end);
                continue;
            }
            for (const Placed& placed : run.items) {
                if (placed.begin >= low + item.size) return low;
                if (placed.first <= item.last && placed.last >= item.first) low = std::max(low, placed.end);
            }
        }
        return low;
    }

    void insert(const Placed& placed) {
        if (runs_.empty()) runs_.emplace_back();
        auto run = std::ranges::upper_bound(
            runs_, placed.begin, {}, [](const Run& r) { return r.items.empty() ? Bytes{} : r.items.front().begin; });
        if (run != runs_.begin()) --run;
        run->add(placed);
        if (run->items.size() <= Run::kLimit) return;
        Run upper = run->split();
        runs_.insert(std::next(run), std::move(upper));
    }

    std::vector<Run> runs_;
};

std::uint64_t life(const PackItem& item) { return std::uint64_t{item.last} - item.first + 1; }
double area(const PackItem& item) { return static_cast<double>(life(item)) * static_cast<double>(item.size.value); }

using Before = bool (*)(const PackItem&, const PackItem&);
constexpr std::array<Before, 4> kOrders{
    [](const PackItem& a, const PackItem& b) { return life(a) != life(b) ? life(a) > life(b) : a.first < b.first; },
    [](const PackItem& a, const PackItem& b) { return a.size != b.size ? a.size > b.size : life(a) > life(b); },
    [](const PackItem& a, const PackItem& b) { return area(a) > area(b); },
    [](const PackItem& a, const PackItem& b) { return a.first < b.first; },
};

Packing pack_in_order(const std::vector<PackItem>& items, Before before) {
    std::vector<std::size_t> order(items.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return before(items[a], items[b]); });
    Packing packing{std::vector<Bytes>(items.size()), {}};
    Arena arena;
    for (const std::size_t i : order) {
        packing.offsets[i] = arena.place(items[i]);
        packing.height = std::max(packing.height, packing.offsets[i] + items[i].size);
    }
    return packing;
}

// What lives at once at most: no arena is lower.
Bytes live_peak(const std::vector<PackItem>& items) {
    std::vector<std::pair<std::uint64_t, Bytes>> changes;
    for (const PackItem& item : items) {
        changes.emplace_back(item.first, item.size);
        changes.emplace_back(std::uint64_t{item.last} + 1, -item.size);
    }
    std::ranges::sort(changes);  // at one moment, what ends comes before what begins
    Bytes live{}, peak{};
    for (const auto& [moment, change] : changes) peak = std::max(peak, live += change);
    return peak;
}

}  // namespace

Packing pack_arena(const std::vector<PackItem>& items) {
    const Bytes floor = live_peak(items);
    Packing best;
    for (const Before before : kOrders) {
        Packing packing = pack_in_order(items, before);
        if (best.offsets.empty() || packing.height < best.height) best = std::move(packing);
        if (best.height == floor) break;
    }
    return best;
}

}  // namespace sluice
