#include "planner/fit_search.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/for_each_index.h"
#include "planner/lower.h"

namespace sluice {
namespace {

double mean_length(const Scenario& s) {
    return static_cast<double>(s.sequence.value) / static_cast<double>(s.policy.n);
}

// How different two choices are: degrees first, then the mean length of a subsequence, then the partition.
auto distance(const Scenario& a, const Scenario& b) {
    return std::tuple(a.policy.sp != b.policy.sp, a.policy.pp != b.policy.pp, a.policy.dp != b.policy.dp,
                      a.policy.zero != b.policy.zero, std::abs(std::log2(mean_length(a) / mean_length(b))),
                      a.policy.partition.kind != b.policy.partition.kind);
}

std::vector<Candidate> possible_candidates(const Scenario& scenario) {
    std::vector<Candidate> candidates;
    for (std::vector<Candidate>& round : candidate_rounds(scenario))
        for (Candidate& candidate : round)
            if (candidate.reason.empty()) candidates.push_back(std::move(candidate));
    return candidates;
}

}  // namespace

PlacedCandidate place_candidate(const Candidate& candidate) {
    LowerOptions options;
    options.only_fit = true;
    PlannedStep step = plan_step(candidate.scenario, options);
    return {candidate, std::move(step.memory), step.feasible() ? "" : std::move(step.reasons.front())};
}

bool lacks_less(const PlacedCandidate& a, const PlacedCandidate& b) {
    const MemoryNeed *x = worst_need(a.memory), *y = worst_need(b.memory);
    if (x == nullptr || y == nullptr) return x != nullptr;  // refused for another reason than memory: last
    return x->excess() / x->usable < y->excess() / y->usable;
}

std::optional<PlacedCandidate> FitSearch::find(const Scenario& scenario) {
    std::vector<Candidate> candidates = possible_candidates(scenario);
    if (last_)
        std::stable_sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
            return distance(a.scenario, last_->scenario) < distance(b.scenario, last_->scenario);
        });
    // In threads. All before the first that fits are placed, too, whichever thread is faster.
    std::vector<std::optional<PlacedCandidate>> placed(candidates.size());
    for_each_index(candidates.size(), 0, [&](std::size_t k) {
        placed[k] = place_candidate(candidates[k]);
        return !placed[k]->fits();
    });
    std::optional<PlacedCandidate> closest;
    for (std::optional<PlacedCandidate>& one : placed) {
        ++placed_;
        if (one->fits()) {
            last_ = one->candidate;
            return std::move(one);
        }
        if (!closest || lacks_less(*one, *closest)) closest = std::move(one);
    }
    return closest;
}

}  // namespace sluice
