#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/format_units.h"
#include "planner/folded_step.h"
#include "planner/for_each_index.h"
#include "planner/lower.h"
#include "planner/partition_sequence.h"
#include "planner/split_layers.h"
#include "planner/step_estimate.h"
#include "scenarios/policy_names.h"

namespace sluice {
namespace {

// Numbers of subsequences whose mean length lies in [shortest, longest], most first.
std::vector<std::int64_t> subsequence_counts(const Scenario& s, Tokens shortest, Tokens longest) {
    if (!s.policy.automatic.n) return {s.policy.n};
    std::set<std::int64_t, std::greater<>> counts;
    for (std::int64_t octave = shortest.value; octave <= longest.value; octave *= 2)
        for (const std::int64_t mean : {octave, octave + octave / 2})
            if (mean <= longest.value && s.sequence.value / mean >= 1) counts.insert(s.sequence.value / mean);
    if (counts.empty()) counts.insert(1);  // a sequence shorter than the shortest mean
    return {counts.begin(), counts.end()};
}

std::vector<std::int64_t> divisors(std::int64_t n) {
    std::vector<std::int64_t> result;
    for (std::int64_t d = 1; d <= n; ++d)
        if (n % d == 0) result.push_back(d);
    return result;
}

// Mean lengths, the preferred ones first (SPPO section 6.1), then shorter and longer ones.
struct MeanLengths {
    Tokens shortest, longest;
};
constexpr MeanLengths kMeanLengths[] = {
    {Tokens{2048}, Tokens{16384}}, {Tokens{512}, Tokens{2047}}, {Tokens{24576}, Tokens{131072}}};

// Why the degrees cannot be used at all, or "".
std::string impossible(const Scenario& s) {
    const Policy& p = s.policy;
    const Architecture& a = s.model;
    const bool weights = p.sp_kind == SequenceParallelKind::kMegatron;
    const struct {
        std::string_view name;
        std::int64_t value;
        bool shared_out = true;
    } parts[] = {{"heads", a.heads},
                 {"KV heads", a.kv_heads},
                 {"hidden", a.hidden, weights},
                 {"ffn width", a.ffn, weights},
                 {"vocabulary", a.vocabulary, weights}};
    for (const auto& part : parts)
        if (part.shared_out && part.value % p.sp != 0) return fmt::format("sp {} does not divide the {} {}", p.sp, part.value, part.name);
    if (p.pp > a.layers) return fmt::format("{} stages for {} layers", p.pp, a.layers);
    const Tokens alignment = p.partition.alignment;
    if (alignment.value % p.sp != 0)
        return fmt::format("the alignment of {} tokens is not a multiple of sp {}", alignment.value, p.sp);
    if (s.sequence.value % alignment.value != 0)
        return fmt::format("{} tokens are not a multiple of the alignment, {}", s.sequence.value, alignment.value);
    if (s.batch % p.dp != 0) return fmt::format("dp {} does not divide the batch of {}", p.dp, s.batch);
    if (p.n > s.sequence.value / alignment.value)
        return fmt::format("{} subsequences of at least {} tokens for a sequence of {}", p.n, alignment.value,
                           s.sequence.value);
    return {};
}

struct Degrees {
    std::int64_t sp = 1, pp = 1, dp = 1;
    ZeroStage zero = ZeroStage::kNone;
};

// Every way to use the whole cluster that the scenario leaves open. Replicas that the batch cannot feed are left out,
// unless there are no others: then they are there to say so.
std::vector<Degrees> degrees_of(const Scenario& s) {
    const Automatic& open = s.policy.automatic;
    const std::int64_t gpus = s.cluster.gpus();
    std::vector<Degrees> fed, unfed;
    for (const std::int64_t sp : divisors(gpus))
        for (const std::int64_t dp : divisors(gpus / sp)) {
            const Degrees d{sp, gpus / sp / dp, dp};
            if ((!open.sp && d.sp != s.policy.sp) || (!open.pp && d.pp != s.policy.pp) ||
                (!open.dp && d.dp != s.policy.dp))
                continue;
            (s.batch % dp == 0 ? fed : unfed).push_back(d);
        }
    std::vector<Degrees> result;
    for (Degrees d : fed.empty() ? unfed : fed)
        for (const ZeroStage zero :
             {ZeroStage::kNone, ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters}) {
            d.zero = zero;
            // one replica has nothing to share out: stage 0, whatever the scenario asks of more
            if (d.dp == 1 ? zero == ZeroStage::kNone : open.zero || zero == s.policy.zero) result.push_back(d);
        }
    return result;
}

std::vector<Candidate> enumerate(const Scenario& scenario, Tokens shortest, Tokens longest) {
    const Automatic& open = scenario.policy.automatic;
    std::vector<PartitionKind> kinds{scenario.policy.partition.kind};
    if (open.partition) kinds = {PartitionKind::kFlops, PartitionKind::kCost};
    std::vector<Candidate> candidates;
    const auto add = [&](const Degrees& degrees, std::int64_t n, PartitionKind kind, TraversalOrder order) {
        Candidate candidate;
        candidate.scenario = scenario;
        Policy& policy = candidate.scenario.policy;
        policy.sp = degrees.sp, policy.pp = degrees.pp, policy.n = n, policy.partition.kind = kind;
        policy.dp = degrees.dp, policy.zero = degrees.zero;
        if (open.alignment) policy.partition.alignment = Tokens{degrees.sp};
        policy.order = order;
        if (order == TraversalOrder::kLayerMajor) policy.granularity = Granularity::kLayer;
        policy.automatic = {};
        candidate.reason = impossible(candidate.scenario);
        candidates.push_back(std::move(candidate));
    };
    for (const Degrees& degrees : degrees_of(scenario))
        for (const std::int64_t n : subsequence_counts(scenario, shortest, longest))
            for (const PartitionKind kind : kinds) {
                add(degrees, n, kind, scenario.policy.order);
                if (open.order && degrees.pp == 1) add(degrees, n, kind, TraversalOrder::kLayerMajor);
            }
    return candidates;
}

Seconds bound_of(const Scenario& s) {
    const std::vector<Subsequence> subsequences = partition_sequence(s);
    return estimate_step(fold_step(s, subsequences, split_layers(s, subsequences)), s).step;
}

std::string slower_reason(Seconds candidate, std::string_view how, Seconds best) {
    return fmt::format("{} {} by the cost model, {:.1f}% more than the best", how, format(candidate),
                       100 * (candidate / best - 1));
}

// Reports what is done of one round, from any thread, one at a time.
class Progress {
public:
    Progress(const SearchOptions& options, double all) : options_(options), all_(all) {}

    void done(std::string_view what, double work) {
        const std::lock_guard lock(mutex_);
        done_ += work;
        if (options_.progress) options_.progress(what, std::min(done_ / all_, 1.0));
    }

private:
    const SearchOptions& options_;
    double all_, done_ = 0;
    std::mutex mutex_;
};

// What a candidate costs to look at: ops of its folded step, about. Placing one takes so many times what its bound
// does.
double work_of(const Candidate& c) {
    const Policy& p = c.scenario.policy;
    const std::int64_t rows = p.granularity == Granularity::kLayer ? c.scenario.model.layers : p.pp;
    return static_cast<double>(p.n * rows * c.scenario.sequences_of_replica());
}
constexpr double kPlacingToBound = 6;

// A candidate that was placed.
struct Outcome {
    bool done = false;
    std::string refusal;  // why it does not fit, or ""
    Seconds estimate{};
    std::string consists;  // of what, one line
    std::shared_ptr<const PlannedStep> planned;
};

Outcome place_one(const Candidate& candidate) {
    const auto step = std::make_shared<const PlannedStep>(plan_step(candidate.scenario));
    if (!step->feasible()) return {true, step->reasons.front(), {}, "", nullptr};
    return {true, "", step->estimate, step->plan.notes.empty() ? "copies hidden" : step->plan.notes.front(), step};
}

// The best estimates so far, ascending: of as many as there are finalists.
class Best {
public:
    explicit Best(std::size_t finalists) : finalists_(finalists) {}

    void add(const Outcome& outcome) {
        if (outcome.refusal.empty()) add(outcome.estimate);
    }
    void add(Seconds estimate) {
        times_.insert(std::ranges::upper_bound(times_, estimate), estimate);
        if (times_.size() > finalists_) times_.pop_back();
    }
    // Can no step of this bound come among them?
    bool excludes(Seconds bound) const { return times_.size() == finalists_ && bound >= times_.back(); }
    Seconds best() const { return times_.front(); }

private:
    std::size_t finalists_;
    std::vector<Seconds> times_;
};

// Outcomes by position in the order of bounds, and which of them workers are to bring.
class Placements {
public:
    Placements(const std::vector<Candidate*>& by_bound, std::size_t finalists)
        : by_bound_(by_bound), finalists_(finalists), outcomes_(by_bound.size()) {}

    // Is the k-th to be placed? No, where those before it exclude it. Waits while those that are being placed can be
    // expected to exclude it: to place it would probably be in vain, and keep everyone waiting.
    bool wanted(std::size_t k) {
        std::unique_lock lock(mutex_);
        const auto excluded = [&] { return failed_ || known_before(k).excludes(by_bound_[k]->bound); };
        ended_.wait(lock, [&] { return excluded() || !expected_before(k).excludes(by_bound_[k]->bound); });
        return !excluded();
    }

    void place(std::size_t k) {
        try {
            end(k, place_one(*by_bound_[k]));
        } catch (...) {
            const std::lock_guard lock(mutex_);
            failed_ = true;
            ended_.notify_all();
            throw;
        }
    }

    std::vector<Outcome> outcomes() && { return std::move(outcomes_); }

private:
    void end(std::size_t k, Outcome outcome) {
        const std::lock_guard lock(mutex_);
        outcomes_[k] = std::move(outcome);
        ended_.notify_all();
    }

    // Never more than one worker would know.
    Best known_before(std::size_t k) const {
        Best best(finalists_);
        for (std::size_t j = 0; j < k; ++j)
            if (outcomes_[j].done) best.add(outcomes_[j]);
        return best;
    }

    // With those that are being placed, or wait themselves, expected to exceed their bounds by as little as any that
    // fits does. Nothing is expected of them before one fits.
    Best expected_before(std::size_t k) const {
        Best best = known_before(k);
        double excess = 0;  // estimate over bound
        for (std::size_t j = 0; j < k; ++j) {
            if (!outcomes_[j].done || !outcomes_[j].refusal.empty()) continue;
            const double of_this = outcomes_[j].estimate / by_bound_[j]->bound;
            excess = excess == 0 ? of_this : std::min(excess, of_this);
        }
        for (std::size_t j = 0; j < k && excess > 0; ++j)
            if (!outcomes_[j].done) best.add(by_bound_[j]->bound * excess);
        return best;
    }

    const std::vector<Candidate*>& by_bound_;
    std::size_t finalists_;
    std::mutex mutex_;  // of what follows
    std::condition_variable ended_;
    std::vector<Outcome> outcomes_;
    bool failed_ = false;
};

// Places candidates from the lowest bound up, until no bound can beat the finalists. Workers may place some that one
// worker would not have come to; these are not looked at, so that the result does not depend on their number.
std::vector<Outcome> outcomes_of(const std::vector<Candidate*>& by_bound, const SearchOptions& options,
                                 Progress& progress) {
    Placements placements(by_bound, options.finalists);
    for_each_index(by_bound.size(), options.workers, [&](std::size_t k) {
        if (!placements.wanted(k)) return false;
        placements.place(k);
        progress.done(by_bound[k]->label(), kPlacingToBound * work_of(*by_bound[k]));
        return true;
    });
    return std::move(placements).outcomes();
}

void place_finalists(const std::vector<Candidate*>& by_bound, const SearchOptions& options, Progress& progress) {
    const std::vector<Outcome> outcomes = outcomes_of(by_bound, options, progress);
    Best best(options.finalists);
    std::vector<Candidate*> placed, passed_over;  // feasible; not placed
    for (std::size_t k = 0; k < by_bound.size(); ++k) {
        Candidate& candidate = *by_bound[k];
        if (best.excludes(candidate.bound)) {
            passed_over.push_back(&candidate);
            continue;
        }
        SLUICE_CHECK(outcomes[k].done, "workers pass over nothing that one worker would place");
        best.add(outcomes[k]);
        const bool fits = outcomes[k].refusal.empty();
        candidate.verdict = fits ? Verdict::kFinalist : Verdict::kInfeasible;
        candidate.reason = fits ? outcomes[k].consists : outcomes[k].refusal;
        candidate.estimate = outcomes[k].estimate;
        candidate.planned = outcomes[k].planned;
        if (fits) placed.push_back(&candidate);
    }
    const auto slower = [&](Candidate& candidate, Seconds time, std::string_view how) {
        candidate.verdict = Verdict::kSlower;
        candidate.planned.reset();
        candidate.reason = slower_reason(time, how, best.best());
    };
    std::ranges::stable_sort(placed, {}, [](const Candidate* c) { return c->estimate; });
    for (Candidate* candidate : passed_over) slower(*candidate, candidate->bound, "at least");
    for (std::size_t k = options.finalists; k < placed.size(); ++k) slower(*placed[k], placed[k]->estimate, "takes");
}

void evaluate(std::vector<Candidate>& candidates, const SearchOptions& options) {
    std::vector<Candidate*> by_bound;
    double work = 0;
    for (Candidate& candidate : candidates)
        if (candidate.reason.empty()) by_bound.push_back(&candidate), work += work_of(candidate);
    Progress progress(options, work * (1 + kPlacingToBound));
    for_each_index(by_bound.size(), options.workers, [&](std::size_t k) {
        by_bound[k]->bound = bound_of(by_bound[k]->scenario);
        progress.done("bounds", work_of(*by_bound[k]));
        return true;
    });
    std::ranges::stable_sort(by_bound, {}, [](const Candidate* c) { return c->bound; });
    place_finalists(by_bound, options, progress);
}

// The recomputing variant of the best candidate, where it is worth a replay.
void add_recomputing(std::vector<Candidate>& candidates) {
    constexpr double kWorthReplaying = 1.1;
    const Candidate* best = nullptr;
    for (const Candidate& c : candidates)
        if (c.verdict == Verdict::kFinalist && (best == nullptr || c.estimate < best->estimate)) best = &c;
    if (best == nullptr) return;
    Candidate variant = *best;
    variant.scenario.policy.placement = RecomputeAll{};
    const Outcome outcome = place_one(variant);
    if (!outcome.refusal.empty() || outcome.estimate > best->estimate * kWorthReplaying) return;
    variant.estimate = outcome.estimate;
    variant.reason = outcome.consists;
    variant.planned = outcome.planned;
    candidates.push_back(std::move(variant));
}

Seconds sort_time(const Candidate& c) { return c.estimate.value > 0 ? c.estimate : c.bound; }

}  // namespace

std::string Candidate::label() const {
    const Policy& p = scenario.policy;
    const std::string replicas =
        p.dp == 1 ? ""
                  : fmt::format(" x dp {}{}", p.dp,
                                p.zero == ZeroStage::kNone ? "" : fmt::format(" (zero {})", static_cast<int>(p.zero)));
    std::string text =
        fmt::format("sp {} x pp {}{}, n {}, partition {}", p.sp, p.pp, replicas, p.n, name(p.partition.kind));
    if (p.order == TraversalOrder::kLayerMajor) text += ", order layer";
    if (!std::holds_alternative<AdaptiveOffload>(p.placement)) text += ", placement " + name(p.placement);
    return text;
}

std::vector<Candidate> search(const Scenario& scenario, const SearchOptions& options) {
    SLUICE_CHECK(options.finalists > 0, "a search has a result");
    const auto is_finalist = [](const Candidate& c) { return c.verdict == Verdict::kFinalist; };
    std::vector<Candidate> candidates;
    bool preferred_fit = false;
    for (std::vector<Candidate>& round : candidate_rounds(scenario)) {
        if (preferred_fit) break;
        const bool preferred = candidates.empty();
        evaluate(round, options);
        candidates.insert(candidates.end(), std::make_move_iterator(round.begin()),
                          std::make_move_iterator(round.end()));
        preferred_fit = preferred && std::any_of(candidates.begin(), candidates.end(), is_finalist);
    }
    if (scenario.policy.automatic.placement) add_recomputing(candidates);
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return std::pair(a.verdict, sort_time(a)) < std::pair(b.verdict, sort_time(b));
    });
    return candidates;
}

std::vector<std::vector<Candidate>> candidate_rounds(const Scenario& scenario) {
    std::vector<std::vector<Candidate>> rounds;
    for (const MeanLengths& means : kMeanLengths) {
        rounds.push_back(enumerate(scenario, means.shortest, means.longest));
        if (!scenario.policy.automatic.n) break;
    }
    return rounds;
}

}  // namespace sluice
