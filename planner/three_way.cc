#include "planner/three_way.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "planner/offload_rule.h"

namespace sluice {
namespace {

using Layers = std::vector<std::int64_t>;  // r, by subsequence

// One more recomputed layer of a subsequence.
struct Item {
    std::size_t subsequence = 0;
    Bytes freed{};  // beyond what its hidden copies free already, those of the subsequence before included
    Bytes widened{};  // of that, what the copies of the subsequence before gain
    Seconds cost{};
    // seconds per byte
    double price() const { return freed.value > 0 ? cost.value / static_cast<double>(freed.value) : 1e300; }
};

class Chooser {
public:
    explicit Chooser(const ThreeWayProblem& problem) : p_(problem), n_(problem.activation.size()) {}

    ThreeWayChoice run() const {
        const Layers none(n_, 0);
        if (may_fit(none)) {
            const ThreeWayChoice kept = evaluate(none);
            if (kept.feasible && (p_.only_fit || kept.added.value == 0)) return kept;
        }
        return count_vectors() <= p_.most_tried ? try_all() : by_price();
    }

private:
    Bytes rest(std::size_t i, std::int64_t r) const { return p_.activation[i] - p_.cheap[i] * r; }
    Bytes window(std::size_t i, const Layers& r) const { return i + 1 < n_ ? p_.window(i, r[i + 1]) : Bytes{}; }

    Bytes hidden(std::size_t i, const Layers& r) const {
        const Bytes whole = rest(i, r[i]), x = std::min(whole, window(i, r));
        return x == whole ? x : x - Bytes{x.value % p_.quantum.value};
    }

    bool fits_hidden(const Layers& r) const {
        std::vector<Bytes> x(n_);
        for (std::size_t i = 0; i < n_; ++i) x[i] = hidden(i, r);
        return p_.fits(x, r);
    }

    // False where no amounts can help: what has to go is more than the host takes, or all of it is not enough.
    bool may_fit(const Layers& r) const {
        if (p_.excess && p_.excess(r) > p_.host) return false;
        std::vector<Bytes> x(n_);
        for (std::size_t i = 0; i < n_; ++i) x[i] = rest(i, r[i]);
        return p_.fits(x, r);
    }

    // The best amounts for these recomputed layers.
    ThreeWayChoice evaluate(const Layers& r) const {
        OffloadProblem amounts;
        for (std::size_t i = 0; i < n_; ++i) {
            amounts.activation.push_back(rest(i, r[i]));
            amounts.window.push_back(window(i, r));
        }
        amounts.quantum = p_.quantum;
        amounts.fits = [&](const std::vector<Bytes>& x) { return p_.fits(x, r); };
        OffloadAmounts found = choose_offload(amounts);
        ThreeWayChoice choice;
        Bytes moved{};
        for (std::size_t i = 0; i < n_; ++i) {
            choice.added += p_.recompute[i] * static_cast<double>(r[i]);
            if (found.x[i] > amounts.window[i]) choice.added += (found.x[i] - amounts.window[i]) / p_.exposed;
            moved += found.x[i];
        }
        // the fewest bytes that fit, so that no other amounts ask less of the host
        choice.feasible = found.feasible && moved <= p_.host;
        choice.x = std::move(found.x), choice.r = r;
        return choice;
    }

    std::size_t count_vectors() const {
        std::size_t count = 1;
        for (std::size_t i = 0; i < n_ && count <= p_.most_tried; ++i)
            count *= static_cast<std::size_t>(p_.cheap[i].value > 0 ? p_.layers + 1 : 1);
        return count;
    }

    Seconds cost(const Layers& r) const {
        Seconds sum{};
        for (std::size_t i = 0; i < n_; ++i) sum += p_.recompute[i] * static_cast<double>(r[i]);
        return sum;
    }

    static std::int64_t total(const Layers& r) { return std::accumulate(r.begin(), r.end(), std::int64_t{0}); }
    static Bytes total(const std::vector<Bytes>& x) { return std::accumulate(x.begin(), x.end(), Bytes{}); }

    ThreeWayChoice try_all() const {
        std::vector<Layers> vectors{Layers(n_, 0)};
        for (std::size_t i = 0; i < n_; ++i) {
            if (p_.cheap[i].value == 0) continue;
            const std::size_t before = vectors.size();
            for (std::int64_t k = 1; k <= p_.layers; ++k)
                for (std::size_t v = 0; v < before; ++v) vectors.push_back(vectors[v]), vectors.back()[i] = k;
        }
        std::stable_sort(vectors.begin(), vectors.end(), [&](const Layers& a, const Layers& b) {
            return std::tuple(cost(a), total(a)) < std::tuple(cost(b), total(b));
        });
        std::optional<ThreeWayChoice> best;
        const auto key = [](const ThreeWayChoice& c) { return std::tuple(c.added, total(c.r), total(c.x)); };
        for (const Layers& r : vectors) {
            if (best && cost(r) > best->added) break;
            ThreeWayChoice choice = evaluate(r);
            if (choice.feasible && (!best || key(choice) < key(*best))) best = std::move(choice);
        }
        if (!best) return evaluate(Layers(n_, p_.layers));
        best->bound = best->added;
        return *best;
    }

    // What the k-th recomputed layer of i frees at a moment that holds only what is not offloaded: less than its cheap
    // part where copies would have hidden some of it.
    Bytes freed(std::size_t i, std::int64_t k) const {
        const Bytes out = i + 1 < n_ ? p_.window(i, 0) : Bytes{};
        const auto resident = [&](std::int64_t r) { return std::max(Bytes{}, rest(i, r) - out); };
        return resident(k - 1) - resident(k) + window_growth(i, k);
    }
    Bytes window_growth(std::size_t i, std::int64_t k) const {
        return i > 0 ? p_.window(i - 1, k) - p_.window(i - 1, k - 1) : Bytes{};
    }

    double exposing_price() const { return 1 / p_.exposed.value; }

    std::vector<Item> items_by_price() const {
        std::vector<Item> items;
        for (std::size_t i = 0; i < n_; ++i)
            for (std::int64_t k = 1; k <= p_.layers && p_.cheap[i].value > 0; ++k)
                items.push_back({i, freed(i, k), window_growth(i, k), p_.recompute[i]});
        sort_by_price(items);
        return items;
    }

    static void sort_by_price(std::vector<Item>& items) {
        std::stable_sort(items.begin(), items.end(),
                         [](const Item& a, const Item& b) { return a.price() < b.price(); });
    }

    Layers first(const std::vector<Item>& items, std::size_t count) const {
        Layers r(n_, 0);
        for (std::size_t k = 0; k < count; ++k) ++r[items[k].subsequence];
        return r;
    }

    // Smallest count for which `holds`, or `most`.
    template <class Predicate>
    static std::size_t smallest(std::size_t least, std::size_t most, Predicate holds) {
        while (least < most) {
            const std::size_t middle = least + (most - least) / 2;
            if (holds(middle))
                most = middle;
            else
                least = middle + 1;
        }
        return least;
    }

    ThreeWayChoice by_price() const {
        const std::vector<Item> items = items_by_price();
        const auto cheaper = static_cast<std::size_t>(
            std::find_if(items.begin(), items.end(), [&](const Item& i) { return i.price() > exposing_price(); }) -
            items.begin());
        const std::size_t count = smallest(0, cheaper, [&](std::size_t k) { return fits_hidden(first(items, k)); });
        ThreeWayChoice choice = evaluate(first(items, count));
        // Not with copies that all hide, or not with what the host takes: more layers, as few as do.
        if (!choice.feasible) {
            const std::size_t more = smallest(std::min(count + 1, items.size()), items.size(), [&](std::size_t k) {
                return may_fit(first(items, k)) && evaluate(first(items, k)).feasible;
            });
            choice = evaluate(first(items, more));
        }
        if (p_.only_fit) return choice;
        if (choice.feasible) choice = put_back(std::move(choice));
        choice.bound = std::min(choice.added, bound(items));
        return choice;
    }

    // Keeps what turns out not to be needed, late subsequences first: they hold memory for the shortest time. Only
    // where copies that hide are enough: with fewer layers such a step is faster as long as it fits.
    ThreeWayChoice put_back(ThreeWayChoice choice) const {
        if (!fits_hidden(choice.r)) return choice;
        for (std::size_t i = n_; i-- > 0;) {
            const auto taken = static_cast<std::size_t>(choice.r[i]);
            const auto keeping = [&](std::size_t k) {
                Layers r = choice.r;
                r[i] = static_cast<std::int64_t>(k);
                return r;
            };
            // A first look at the copies that hide, then at what the host takes at least, spares most evaluations.
            const auto works = [&](std::size_t fewer) {
                const Layers r = keeping(fewer);
                return may_fit(r) && evaluate(r).feasible;
            };
            const std::size_t hides = smallest(0, taken, [&](std::size_t k) { return fits_hidden(keeping(k)); });
            const std::size_t k = smallest(hides, taken, works);
            if (k == taken) continue;
            ThreeWayChoice better = evaluate(keeping(k));
            if (better.added < choice.added) choice = std::move(better);
        }
        return choice;
    }

    // Each shortage by itself has to be covered, at best by the cheapest bytes, split at will.
    Seconds bound(const std::vector<Item>& all) const {
        if (!p_.shortages) return {};
        const Layers none(n_, 0);
        std::vector<Bytes> x(n_);
        for (std::size_t i = 0; i < n_; ++i) x[i] = hidden(i, none);
        Seconds most{};
        for (const Shortage& shortage : p_.shortages(x)) most = std::max(most, cover(shortage, all));
        return most;
    }

    Seconds cover(const Shortage& shortage, std::vector<Item> items) const {
        for (Item& item : items) {
            const Shortage::Holds holds = shortage.holds[item.subsequence];
            if (holds != Shortage::Holds::kRest) item.freed = item.widened;
            if (holds == Shortage::Holds::kAll) item.freed += p_.cheap[item.subsequence];
            item.freed += p_.quantum;  // what rounding may have kept
        }
        sort_by_price(items);
        Bytes left = shortage.bytes;
        Seconds cost{};
        for (const Item& item : items) {
            if (left.value <= 0 || item.price() > exposing_price()) break;
            const Bytes used = std::min(left, item.freed);
            cost += Seconds{item.price() * static_cast<double>(used.value)};
            left -= used;
        }
        return cost + std::max(Bytes{}, left) / p_.exposed;
    }

    const ThreeWayProblem& p_;
    std::size_t n_;
};

}  // namespace

ThreeWayChoice choose_three_way(const ThreeWayProblem& problem) {
    const std::size_t n = problem.activation.size();
    SLUICE_CHECK(problem.cheap.size() == n && problem.recompute.size() == n, "one of each per subsequence");
    return Chooser(problem).run();
}

}  // namespace sluice
