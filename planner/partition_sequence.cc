#include "planner/partition_sequence.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "models/kernel_cost.h"
#include "models/model_flops.h"

namespace sluice {
namespace {

using Cost = std::function<double(Subsequence)>;  // of one subsequence; grows with its length

double chain_seconds(const Scenario& s, const KernelChain& chain) {
    return compute_time(Compute{chain}, s.calibration).value;
}

double layer_seconds(const Scenario& s, Subsequence sub) {
    const LayerForward f = layer_forward(s, sub);
    const LayerBackward b = layer_backward(s, sub);
    double total = 0;
    for (const KernelChain* chain : {&f.norm1, &f.attention, &f.norm2, &f.mlp, &f.residual, &b.mlp_data, &b.mlp_weight,
                                     &b.norm2, &b.attention_data, &b.attention_weight, &b.norm1})
        total += chain_seconds(s, *chain);
    return total;
}

Cost cost_of(const Scenario& s) {
    if (s.policy.partition.kind == PartitionKind::kCost) return [&s](Subsequence sub) { return layer_seconds(s, sub); };
    return [&s](Subsequence sub) { return layer_forward_flops(s, sub, s.policy.partition.count).value; };
}

// The first end in [begin + 1, last] at which the cost of [begin, end) reaches `target`, or `last`. Looks around
// `guess` first: of targets that differ little the ends do, too.
std::int64_t end_for(const Cost& cost, std::int64_t begin, std::int64_t last, double target, std::int64_t guess) {
    const auto reaches = [&](std::int64_t end) {
        return end == last || !(cost({Tokens{begin}, Tokens{end - begin}}) < target);
    };
    guess = std::clamp(guess, begin + 1, last);
    std::int64_t low = begin + 1, high = last;  // the end is in [low, high]
    if (reaches(guess)) {
        high = guess;
        for (std::int64_t step = 1; low < high - step; step *= 4) {
            if (!reaches(high - step)) {
                low = high - step + 1;
                break;
            }
            high -= step;
        }
    } else {
        low = guess + 1;
        for (std::int64_t step = 1; low + step < high; step *= 4) {
            if (reaches(low + step)) {
                high = low + step;
                break;
            }
            low += step + 1;
        }
    }
    while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (reaches(middle))
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

// Cuts of cost `target` each, first to last; the last one is stretched to the end whatever it costs. `lengths`: of the
// cuts for another target, as guesses; then of these.
std::vector<std::int64_t> ends_for(const Cost& cost, std::int64_t tokens, double target,
                                   std::vector<std::int64_t>& lengths) {
    std::vector<std::int64_t> ends;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i + 1 < lengths.size(); ++i) {
        const std::int64_t end = begin < tokens ? end_for(cost, begin, tokens, target, begin + lengths[i]) : tokens;
        lengths[i] = end - begin;
        ends.push_back(begin = end);
    }
    ends.push_back(tokens);
    return ends;
}

// Targets between which the last cut comes to cost what the others do. It costs more than the lower one, and no more
// than the upper one.
struct Targets {
    double low = 0, high = 0;
    bool apart() const { return high - low > 1e-7 * high; }
};

// Narrows `targets` by secants, which takes a few looks at the sequence where halving takes 35.
// `excess(target)`: by how much the last cut then costs more; falls by about n times what the target grows by.
template <class Excess>
Targets near_equal(Targets targets, double guess, double n, Excess excess) {
    double slope = -n, before = 0, excess_before = 0;
    for (int look = 0; look < 10 && targets.apart(); ++look) {
        if (!(targets.low < guess && guess < targets.high)) guess = (targets.low + targets.high) / 2;
        const double more = excess(guess);
        (more > 0 ? targets.low : targets.high) = guess;
        if (look > 0 && more != excess_before) slope = std::min((more - excess_before) / (guess - before), -1.0);
        before = guess, excess_before = more;
        // a little too far each time, so that both ends come near
        constexpr double kBeyond = 1.02;
        guess -= kBeyond * more / slope;
    }
    return targets;
}

// The target at which the last cut costs what the others do.
std::vector<std::int64_t> equal_cost_ends(const Cost& cost, std::int64_t tokens, std::int64_t n) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(n), tokens / n);
    const auto excess = [&](double target) {
        const std::vector<std::int64_t> ends = ends_for(cost, tokens, target, lengths);
        const std::int64_t begin = n > 1 ? ends[ends.size() - 2] : 0;
        return (begin < tokens ? cost({Tokens{begin}, Tokens{tokens - begin}}) : 0) - target;
    };
    Targets all{0, cost({Tokens{0}, Tokens{tokens}})};
    const Targets near = near_equal(all, all.high / static_cast<double>(n), static_cast<double>(n), excess);
    // Halving gives the same target whatever is known beforehand: equal inputs, equal cuts.
    for (int step = 0; step < 48 && all.apart(); ++step) {
        const double target = (all.low + all.high) / 2;
        const bool more = target <= near.low || (target < near.high && excess(target) > 0);
        (more ? all.low : all.high) = target;
    }
    return ends_for(cost, tokens, all.high, lengths);
}

// Moves every end to the nearest multiple of `step`, keeping every length at least `step`.
void align(std::vector<std::int64_t>& ends, std::int64_t tokens, std::int64_t step) {
    const auto n = static_cast<std::int64_t>(ends.size());
    std::int64_t previous = 0;
    for (std::int64_t i = 0; i + 1 < n; ++i) {
        std::int64_t& end = ends[static_cast<std::size_t>(i)];
        end = (end + step / 2) / step * step;
        end = std::clamp(end, previous + step, tokens - (n - 1 - i) * step);
        previous = end;
    }
}

std::vector<std::int64_t> equal_length_ends(std::int64_t tokens, std::int64_t n, std::int64_t step) {
    const std::int64_t units = tokens / step;
    std::vector<std::int64_t> ends;
    for (std::int64_t i = 1; i <= n; ++i) ends.push_back((units / n * i + std::min(i, units % n)) * step);
    return ends;
}

std::vector<std::int64_t> ends_of(const Scenario& s) {
    const Partition& partition = s.policy.partition;
    const std::int64_t tokens = s.sequence.value, n = s.policy.n, step = partition.alignment.value;
    switch (partition.kind) {
        case PartitionKind::kEqual:
            return equal_length_ends(tokens, n, step);
        case PartitionKind::kList: {
            std::vector<std::int64_t> ends;
            for (const Tokens length : partition.lengths)
                ends.push_back((ends.empty() ? 0 : ends.back()) + length.value);
            return ends;
        }
        case PartitionKind::kFlops:
        case PartitionKind::kCost:
            break;
    }
    std::vector<std::int64_t> ends = equal_cost_ends(cost_of(s), tokens, n);
    align(ends, tokens, step);
    return ends;
}

}  // namespace

std::vector<Subsequence> partition_sequence(const Scenario& scenario) {
    std::vector<Subsequence> cuts;
    std::int64_t begin = 0;
    for (const std::int64_t end : ends_of(scenario)) {
        SLUICE_CHECK(end > begin, "every subsequence has tokens");
        cuts.push_back({Tokens{begin}, Tokens{end - begin}});
        begin = end;
    }
    SLUICE_CHECK(begin == scenario.sequence.value, "the subsequences cover the sequence");
    return cuts;
}

}  // namespace sluice
