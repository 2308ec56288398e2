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

    // Lowers the free amounts together to the smallest level that fits, fixes those that cannot go lower by themselves,
    // and goes on with the rest: the most equal amounts among those that fit with the fewest bytes.
    // Requires: fits(cap).
    std::vector<Bytes> solve() {
        while (std::find(fixed_.begin(), fixed_.end(), 0) != fixed_.end()) {
            x_ = at(smallest_level());
            bool any_fixed = false;
            for (std::size_t i = 0; i < x_.size(); ++i)
                if (!fixed_[i] && (x_[i].value == 0 || !fits_lower(i))) fixed_[i] = 1, any_fixed = true;
            if (!any_fixed) lower_last_free();
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

    Bytes lower(std::size_t i) const { return std::max(Bytes{}, x_[i] - problem_.quantum); }

    bool fits_lower(std::size_t i) const {
        std::vector<Bytes> x = x_;
        x[i] = lower(i);
        return problem_.fits(x);
    }

    // Each alone could still give a quantum, all together could not: the latest gives what it can.
    void lower_last_free() {
        std::size_t i = fixed_.size();
        while (fixed_[--i]) {}
        const std::int64_t quantum = problem_.quantum.value;
        std::int64_t low = 0, high = (x_[i].value + quantum - 1) / quantum;  // steps down from where it is
        std::vector<Bytes> x = x_;
        while (low < high) {
            const std::int64_t middle = high - (high - low) / 2;
            x[i] = std::max(Bytes{}, x_[i] - Bytes{quantum * middle});
            if (problem_.fits(x))
                low = middle;
            else
                high = middle - 1;
        }
        x_[i] = std::max(Bytes{}, x_[i] - Bytes{quantum * low});
        fixed_[i] = 1;
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
