#include "planner/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/format_units.h"
#include "planner/folded_step.h"
#include "planner/lower.h"
#include "planner/partition_sequence.h"
#include "planner/split_layers.h"
#include "planner/step_estimate.h"

namespace sluice {
std::string_view name(PartitionKind kind) {
    switch (kind) {
        case PartitionKind::kFlops:
            return "flops";
        case PartitionKind::kCost:
            return "cost";
        case PartitionKind::kEqual:
            return "equal";
        case PartitionKind::kList:
            return "list";
    }
    return "?";
}

std::string name(const PlacementPolicy& placement) {
    struct Name {
        std::string operator()(KeepAll) const { return "none"; }
        std::string operator()(OffloadAll) const { return "full"; }
        std::string operator()(OffloadRatio r) const { return fmt::format("ratio {}", r.alpha); }
        std::string operator()(AdaptiveOffload) const { return "adaptive"; }
        std::string operator()(RecomputeAll) const { return "recompute"; }
        std::string operator()(ThreeWay) const { return "three-way"; }
    };
    return std::visit(Name{}, placement);
}

std::string_view name(TraversalOrder order) { return order == TraversalOrder::kLayerMajor ? "layer" : "subsequence"; }

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
    const struct {
        std::string_view name;
        std::int64_t value;
    } parts[] = {{"heads", a.heads},
                 {"KV heads", a.kv_heads},
                 {"hidden", a.hidden},
                 {"ffn width", a.ffn},
                 {"vocabulary", a.vocabulary}};
    for (const auto& part : parts)
        if (part.value % p.sp != 0) return fmt::format("sp {} does not divide the {} {}", p.sp, part.value, part.name);
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

// Places candidates from the lowest bound up, until no bound can beat the finalists.
void place_finalists(std::vector<Candidate*> by_bound, const SearchOptions& options) {
    std::vector<Candidate*> placed;  // feasible, by estimate
    const auto full = [&] { return placed.size() >= options.finalists; };
    for (std::size_t k = 0; k < by_bound.size(); ++k) {
        Candidate& candidate = *by_bound[k];
        if (full() && candidate.bound >= placed[options.finalists - 1]->estimate) {
            candidate.verdict = Verdict::kSlower;
            candidate.reason = slower_reason(candidate.bound, "at least", placed.front()->estimate);
            continue;
        }
        if (options.progress)
            options.progress(candidate.label(), static_cast<double>(k) / static_cast<double>(by_bound.size()));
        const PlannedStep step = plan_step(candidate.scenario);
        if (!step.feasible()) {
            candidate.verdict = Verdict::kInfeasible;
            candidate.reason = step.reasons.front();
            continue;
        }
        candidate.verdict = Verdict::kFinalist;
        candidate.estimate = step.estimate;
        candidate.reason = step.plan.notes.empty() ? "copies hidden" : step.plan.notes.front();
        const auto at = std::find_if(placed.begin(), placed.end(),
                                     [&](const Candidate* other) { return candidate.estimate < other->estimate; });
        placed.insert(at, &candidate);
    }
    for (std::size_t k = options.finalists; k < placed.size(); ++k) {
        placed[k]->verdict = Verdict::kSlower;
        placed[k]->reason = slower_reason(placed[k]->estimate, "takes", placed.front()->estimate);
    }
}

void evaluate(std::vector<Candidate>& candidates, const SearchOptions& options) {
    std::vector<Candidate*> by_bound;
    for (std::size_t k = 0; k < candidates.size(); ++k) {
        Candidate& candidate = candidates[k];
        if (!candidate.reason.empty()) continue;
        if (options.progress)
            options.progress("bounds", static_cast<double>(k) / static_cast<double>(candidates.size()));
        candidate.bound = bound_of(candidate.scenario);
        by_bound.push_back(&candidate);
    }
    std::stable_sort(by_bound.begin(), by_bound.end(),
                     [](const Candidate* a, const Candidate* b) { return a->bound < b->bound; });
    place_finalists(std::move(by_bound), options);
}

void add_recomputing(std::vector<Candidate>& candidates) {
    constexpr double kWorthReplaying = 1.1;
    std::vector<Candidate> more;
    for (const Candidate& finalist : candidates) {
        if (finalist.verdict != Verdict::kFinalist) continue;
        Candidate variant = finalist;
        variant.scenario.policy.placement = RecomputeAll{};
        const PlannedStep step = plan_step(variant.scenario);
        if (!step.feasible() || step.estimate > finalist.estimate * kWorthReplaying) continue;
        variant.estimate = step.estimate;
        variant.reason = step.plan.notes.empty() ? "" : step.plan.notes.front();
        more.push_back(std::move(variant));
    }
    candidates.insert(candidates.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
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
