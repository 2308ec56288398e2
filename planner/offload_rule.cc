#include "planner/offload_rule.h"

#include <algorithm>

#include "base/error.h"

namespace sluice {
namespace {

// Amounts at a level: every free subsequence moves `base_i + level`, cut to [0, cap_i]; the others keep what they have.
class Level {
public:
    Level(const OffloadProblem& problem, std::vector<Bytes> base, std::vector<Bytes> cap)
        : problem_(problem), base_(std::move(base)), cap_(std::move(cap)), x_(cap_.size()), fixed_(cap_.size(), 0) {}

    // Lowers the free amounts together to the smallest level that fits, takes one step back wherever that still fits
    // (late ones first: early ones are out for longer), fixes those that cannot go lower and goes on with the rest: the
    // most equal amounts among those that fit with the fewest bytes. Requires: fits(cap).
    std::vector<Bytes> solve() {
        while (std::find(fixed_.begin(), fixed_.end(), 0) != fixed_.end()) {
            const std::int64_t level = smallest_level();
            x_ = at(level);
            if (level == 0) {
                start_from_nothing();
                continue;
            }
            step_back(at(level - 1));
            fix_tight();
        }
        return x_;
    }

private:
    std::vector<Bytes> at(std::int64_t steps) const {
        std::vector<Bytes> x = x_;
        for (std::size_t i = 0; i < x.size(); ++i)
            if (!fixed_[i]) x[i] = std::clamp(base_[i] + problem_.quantum * steps, Bytes{}, cap_[i]);
        return x;
    }

    std::int64_t smallest_level() const {
        std::int64_t most = 0;
        for (std::size_t i = 0; i < cap_.size(); ++i)
            most = std::max(most, (cap_[i] - base_[i]).value / problem_.quantum.value + 1);
        std::int64_t low = 0, high = most;  // at `most` every amount is its cap, or what was found to fit
        while (low < high) {
            const std::int64_t middle = low + (high - low) / 2;
            if (problem_.fits(at(middle)))
                high = middle;
            else
                low = middle + 1;
        }
        return low;
    }

    // Takes `below` for as many of the latest free amounts as fit together: earlier ones are out whenever later ones
    // are, so when one cannot go down, none before it can. The changed ones that stay are fixed; at least one is, since
    // `below` as a whole does not fit.
    void step_back(const std::vector<Bytes>& below) {
        std::vector<std::size_t> changed;  // latest first
        for (std::size_t i = x_.size(); i-- > 0;)
            if (!fixed_[i] && x_[i] != below[i]) changed.push_back(i);
        const std::size_t count = last_true(0, changed.size() - 1, [&](std::size_t k) {
            std::vector<Bytes> x = x_;
            for (std::size_t c = 0; c < k; ++c) x[changed[c]] = below[changed[c]];
            return problem_.fits(x);
        });
        for (std::size_t c = 0; c < count; ++c) x_[changed[c]] = cap_[changed[c]] = below[changed[c]];
        for (std::size_t c = count; c < changed.size(); ++c) fixed_[changed[c]] = 1;
    }

    // Fixes the free amounts that cannot go down by themselves: all up to some subsequence, by the same reasoning.
    void fix_tight() {
        std::vector<std::size_t> free;
        for (std::size_t i = 0; i < x_.size(); ++i)
            if (!fixed_[i] && x_[i].value > 0) free.push_back(i);
        const std::size_t tight = last_true(0, free.size(), [&](std::size_t k) {
            std::vector<Bytes> x = x_;
            Bytes& amount = x[free[k - 1]];
            amount = std::max(Bytes{}, amount - problem_.quantum);
            return !problem_.fits(x);
        });
        for (std::size_t c = 0; c < tight; ++c) fixed_[free[c]] = 1;
    }

    // The largest k in [low, high] for which `holds`, which is true up to it; holds(low) is taken for granted.
    template <class Predicate>
    static std::size_t last_true(std::size_t low, std::size_t high, Predicate holds) {
        while (low < high) {
            const std::size_t middle = high - (high - low) / 2;
            if (holds(middle))
                low = middle;
            else
                high = middle - 1;
        }
        return low;
    }

    // The rest fits at its base: what it may still save is asked from zero up. From a base of zero there is nothing
    // left.
    void start_from_nothing() {
        for (std::size_t i = 0; i < x_.size(); ++i) {
            if (fixed_[i]) continue;
            if (x_[i].value == 0) fixed_[i] = 1;
            base_[i] = Bytes{}, cap_[i] = x_[i];
        }
    }

    const OffloadProblem& problem_;
    std::vector<Bytes> base_, cap_, x_;
    std::vector<char> fixed_;
};

}  // namespace

OffloadAmounts choose_offload(const OffloadProblem& problem) {
    const std::size_t n = problem.activation.size();
    SLUICE_CHECK(problem.window.size() == n && problem.quantum.value > 0, "a window per subsequence");
    OffloadAmounts result;
    std::vector<Bytes> hidden(n);
    for (std::size_t i = 0; i < n; ++i) {
        hidden[i] = std::min(problem.activation[i], problem.window[i]);
        if (hidden[i] != problem.activation[i]) hidden[i] -= Bytes{hidden[i].value % problem.quantum.value};
    }
    if (problem.fits(hidden)) {
        result.x = Level(problem, std::vector<Bytes>(n), hidden).solve();
        result.feasible = true;
        return result;
    }
    result.x = problem.activation;
    result.within_windows = false;
    if (!problem.fits(problem.activation)) return result;
    result.feasible = true;
    result.x = Level(problem, hidden, problem.activation).solve();
    return result;
}

std::vector<Bytes> memory_recurrence(Bytes resident, std::span<const Bytes> activation,
                                     std::span<const Bytes> offloaded) {
    std::vector<Bytes> m;
    for (std::size_t i = 0; i < activation.size(); ++i)
        m.push_back((i == 0 ? resident : m.back() - offloaded[i - 1]) + activation[i]);
    return m;
}

}  // namespace sluice
