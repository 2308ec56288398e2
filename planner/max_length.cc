#include "planner/max_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/format_units.h"
#include "planner/for_each_index.h"
#include "planner/lower.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostTokens = std::int64_t{1} << 30;  // of a step: the limit of scenario files
// A length that all mean lengths of subsequences nearly divide, and sp up to 9: where choices are enumerated.
constexpr Tokens kReference{std::int64_t{9} * 5 * 7 << 17};
// Lengths after the first failure that are asked, too, with every choice: steps, then shares of the length.
constexpr std::int64_t kStepsBeyond[] = {2};
constexpr double kSharesBeyond[] = {0.01};

Scenario with_length(Scenario scenario, Tokens length) {
    scenario.sequence = length;
    return scenario;
}

// A choice of everything but the length. With `n: auto` it is the mean length of a subsequence that is chosen.
struct Choice {
    Candidate candidate;
    std::int64_t mean = 0;  // tokens; 0: n is fixed
};

std::vector<Choice> choices_of(const Scenario& scenario) {
    const Tokens step = length_step(scenario);
    const Tokens reference{std::max(kReference.value / step.value, std::int64_t{1}) * step.value};
    std::vector<Choice> choices;
    for (std::vector<Candidate>& round : candidate_rounds(with_length(scenario, reference)))
        for (Candidate& candidate : round) {
            if (!candidate.reason.empty()) continue;
            const std::int64_t mean = scenario.policy.automatic.n ? reference.value / candidate.scenario.policy.n : 0;
            choices.push_back({std::move(candidate), mean});
        }
    // Few stages first, since their steps are placed fastest; then search()'s own order, its preferred lengths first.
    // What comes later is mostly refused at once.
    std::stable_sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
        return a.candidate.scenario.policy.pp < b.candidate.scenario.policy.pp;
    });
    return choices;
}

class LengthSearch {
public:
    LengthSearch(const Scenario& scenario, const MaxLengthOptions& options)
        : scenario_(scenario),
          options_(options),
          step_(length_step(scenario)),
          shortest_(scenario.policy.automatic.n ? 1 : scenario.policy.n),
          most_(kMostTokens / scenario.batch / step_.value) {}

    MaxLength run() {
        const std::vector<Choice> choices = choices_of(scenario_);
        std::size_t k = 0;
        while (k < choices.size() && best_ == 0) begin_with(choices[k++]);
        while (const std::optional<std::size_t> longer = first_longer(choices, k)) {
            raise(choices[*longer], most_ + 1, 1);
            k = *longer + 1;
        }
        while (const std::optional<std::int64_t> more = fits_beyond()) best_ = *more;
        MaxLength result;
        result.step = step_;
        result.longest = std::move(longest_);
        result.failing = std::move(failing_);
        result.placed = placed_ + all_.placed();
        return result;
    }

private:
    // The choice's own longest length, from the scenario's down and then up.
    void begin_with(const Choice& choice) {
        std::int64_t fails = most_ + 1;
        std::int64_t at = std::clamp(scenario_.sequence.value / step_.value, std::int64_t{1}, most_);
        while (at > 0 && !fits(choice, at)) fails = at, at /= 2;
        if (at > 0) raise(choice, fails, std::max(best_ / 16, std::int64_t{1}));
    }

    // The first choice from the k-th on that fits one step beyond the best length, which then is the best. In threads;
    // all before it are asked, too, whichever thread is faster.
    std::optional<std::size_t> first_longer(const std::vector<Choice>& choices, std::size_t from) {
        if (best_ == most_) return std::nullopt;
        std::vector<std::optional<PlacedCandidate>> placed(choices.size() - from);
        std::mutex reporting;
        for_each_index(placed.size(), 0, [&](std::size_t k) {
            {
                const std::lock_guard lock(reporting);
                report(choices[from + k], static_cast<double>(from + k) / static_cast<double>(choices.size()));
            }
            placed[k] = place_at(choices[from + k], best_ + 1);
            return !(placed[k] && placed[k]->fits());
        });
        for (std::size_t k = 0; k < placed.size(); ++k) {
            ++placed_;
            if (!placed[k] || !placed[k]->fits()) continue;
            ++best_;
            longest_ = std::move(placed[k]);
            return from + k;
        }
        return std::nullopt;
    }

    void report(const Choice& choice, double fraction) const {
        if (options_.progress)
            options_.progress(fmt::format("{} tokens fit; {}", best_ * step_.value, choice.candidate.label()),
                              fraction);
    }

    // Raises best_, at which the choice fits, to the longest length at which it does: first by `more`, then by four
    // times as much each time, then by halves.
    void raise(const Choice& choice, std::int64_t fails, std::int64_t more) {
        for (; best_ + more < fails; more *= 4)
            if (!fits(choice, best_ + more)) fails = best_ + more;
        while (fails - best_ > 1) {
            const std::int64_t middle = best_ + (fails - best_) / 2;
            if (!fits(choice, middle)) fails = middle;
        }
    }

    // None: so many subsequences are too many for the length.
    std::optional<PlacedCandidate> place_at(const Choice& choice, std::int64_t steps) const {
        Candidate candidate = choice.candidate;
        Scenario& s = candidate.scenario;
        s.sequence = Tokens{steps * step_.value};
        if (choice.mean > 0) s.policy.n = std::max(s.sequence.value / choice.mean, std::int64_t{1});
        if (s.policy.n > s.sequence.value / s.policy.partition.alignment.value) return std::nullopt;
        return place_candidate(candidate);
    }

    // Then it is the best.
    bool fits(const Choice& choice, std::int64_t steps) {
        std::optional<PlacedCandidate> placed = place_at(choice, steps);
        ++placed_;
        if (!placed || !placed->fits()) return false;
        best_ = steps;
        longest_ = std::move(placed);
        return true;
    }

    // A longer length that fits although the choices' own searches did not come upon it. Fills in what fails at the
    // next length.
    std::optional<std::int64_t> fits_beyond() {
        failing_.reset();
        const std::int64_t next = std::max(best_ + 1, shortest_);
        std::vector<std::int64_t> lengths{next};
        for (const std::int64_t steps : kStepsBeyond) lengths.push_back(next - 1 + steps);
        for (const double share : kSharesBeyond)
            lengths.push_back(best_ + static_cast<std::int64_t>(share * static_cast<double>(best_)));
        for (const std::int64_t steps : lengths) {
            if (steps < next || steps > most_) continue;
            std::optional<PlacedCandidate> found = all_.find(with_length(scenario_, Tokens{steps * step_.value}));
            if (found && found->fits()) {
                longest_ = std::move(found);
                return steps;
            }
            if (steps != next || !found) continue;
            PlannedStep step = plan_step(found->candidate.scenario);
            found->memory = std::move(step.memory);
            found->reason = step.feasible() ? "" : std::move(step.reasons.front());
            if (step.feasible()) {  // only_fit's shortcuts refused it, narrowly
                longest_ = std::move(found);
                return steps;
            }
            failing_ = std::move(found);
        }
        return std::nullopt;
    }

    const Scenario& scenario_;
    const MaxLengthOptions& options_;
    const Tokens step_;
    const std::int64_t shortest_, most_;  // steps
    std::int64_t best_ = 0;               // steps of the longest that fits so far
    std::optional<PlacedCandidate> longest_, failing_;
    FitSearch all_;
    std::size_t placed_ = 0;
};

}  // namespace

Tokens length_step(const Scenario& scenario) {
    SLUICE_CHECK(scenario.policy.partition.kind != PartitionKind::kList, "listed lengths give the sequence");
    if (!scenario.policy.automatic.alignment) return scenario.policy.partition.alignment;
    std::int64_t step = 1;
    const std::vector<std::vector<Candidate>> rounds = candidate_rounds(with_length(scenario, kReference));
    for (const Candidate& candidate : rounds.front())
        if (candidate.reason.empty()) step = std::lcm(step, candidate.scenario.policy.sp);
    return Tokens{step};
}

MaxLength max_length(const Scenario& scenario, const MaxLengthOptions& options) {
    return LengthSearch(scenario, options).run();
}

}  // namespace sluice
