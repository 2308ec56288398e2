#include "planner/smallest_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "planner/lower.h"
#include "planner/max_length.h"

namespace sluice {
namespace {

constexpr Bytes kMostMemory{std::int64_t{1} << 50};  // the limit of cluster files
constexpr std::int64_t kMostTimesNodes = 16;
constexpr std::int64_t kMostSubsequences = 65536;
constexpr std::int64_t kShortestMean = 256;  // tokens

Change no_help(std::string_view what, std::string why) { return {std::string(what), std::move(why), {}, {}, {}}; }

// A quantity with steps: value v means `apply(v)`, and `current` does not fit.
struct Steps {
    std::int64_t current, most;
    std::function<Scenario(std::int64_t)> apply;
};

struct StepFound {
    std::int64_t value;
    PlacedCandidate fit;
};

// The smallest value that fits where more never fits less, by doubling and halving: what it returns fits, one less does
// not.
std::optional<StepFound> smallest_step(const Steps& steps) {
    FitSearch search;
    std::optional<StepFound> found;
    const auto fits = [&](std::int64_t value) {
        std::optional<PlacedCandidate> placed = search.find(steps.apply(value));
        if (!placed || !placed->fits()) return false;
        found = StepFound{value, std::move(*placed)};
        return true;
    };
    std::int64_t fails = steps.current;
    for (std::int64_t more = 1;; more *= 2) {
        const std::int64_t value = std::min(steps.current + more, steps.most);
        if (value <= fails) return std::nullopt;
        if (fits(value)) break;
        fails = value;
    }
    while (found->value - fails > 1)
        if (const std::int64_t middle = fails + (found->value - fails) / 2; !fits(middle)) fails = middle;
    return found;
}

Change from_steps(std::string_view what, std::string how, const Steps& steps, StepFound found) {
    return {std::string(what), std::move(how), steps.apply(found.value - 1), std::move(found.fit), {}};
}

Scenario with_open_degrees(Scenario s) {
    Policy& p = s.policy;
    if (!p.automatic.sp && p.partition.alignment.value == p.sp) p.automatic.alignment = true;
    p.automatic.sp = p.automatic.pp = true;
    p.sp = p.pp = 1;
    if (p.automatic.alignment) p.partition.alignment = Tokens{1};
    return s;
}

Change more_gpus(std::string_view what, const Scenario& s) {
    const Cluster& c = s.cluster;
    if (c.network.nics == 0) return no_help(what, fmt::format("cluster {} has no network between nodes", c.name));
    const Steps steps{c.nodes, c.nodes * kMostTimesNodes, [&](std::int64_t nodes) {
                          Scenario more = with_open_degrees(s);
                          more.cluster.nodes = nodes;
                          return more;
                      }};
    std::optional<StepFound> found = smallest_step(steps);
    if (!found) return no_help(what, fmt::format("no number of nodes up to {} fits", steps.most));
    std::string how =
        fmt::format("{} nodes of {}, {} GPUs", found->value, c.gpus_per_node, found->value * c.gpus_per_node);
    return from_steps(what, std::move(how), steps, std::move(*found));
}

Change more_subsequences(std::string_view what, const Scenario& s) {
    if (s.policy.automatic.n) return no_help(what, "auto has tried mean lengths from 512 to 128 Ki tokens");
    if (s.policy.partition.kind == PartitionKind::kList) return no_help(what, "the scenario lists its lengths");
    const std::int64_t shortest = std::max(kShortestMean, s.policy.partition.alignment.value);
    const Steps steps{s.policy.n, std::min(s.sequence.value / shortest, kMostSubsequences), [&](std::int64_t n) {
                          Scenario more = s;
                          more.policy.n = n;
                          return more;
                      }};
    std::optional<StepFound> found = smallest_step(steps);
    if (!found)
        return no_help(what, steps.most > s.policy.n
                                 ? fmt::format("no number of subsequences up to {} fits", steps.most)
                                 : fmt::format("{} are as many as make sense: {} tokens each", s.policy.n,
                                               s.sequence.value / s.policy.n));
    std::string how = fmt::format("n {}", found->value);
    return from_steps(what, std::move(how), steps, std::move(*found));
}

// A change without steps.
Change one_step(std::string_view what, std::string how, std::string why_not, const Scenario& changed) {
    FitSearch search;
    std::optional<PlacedCandidate> placed = search.find(changed);
    if (!placed || !placed->fits()) return no_help(what, std::move(why_not));
    return {std::string(what), std::move(how), {}, std::move(placed), {}};
}

Change other_degrees(std::string_view what, const Scenario& s) {
    if (s.policy.automatic.sp && s.policy.automatic.pp) return no_help(what, "auto has tried all");
    Change change =
        one_step(what, "", fmt::format("no sp x pp on {} GPUs fits", s.cluster.gpus()), with_open_degrees(s));
    if (change.fit) {
        const Policy& p = change.fit->candidate.scenario.policy;
        change.how = fmt::format("sp {} x pp {}{}", p.sp, p.pp, p.dp > 1 ? fmt::format(" x dp {}", p.dp) : "");
    }
    return change;
}

Scenario with_placement(Scenario s, PlacementPolicy placement) {
    s.policy.placement = placement;
    return s;
}

Change offload(std::string_view what, const Scenario& s) {
    if (std::holds_alternative<AdaptiveOffload>(s.policy.placement) ||
        std::holds_alternative<ThreeWay>(s.policy.placement))
        return no_help(what, "the placement offloads all it can");
    return one_step(what, "placement adaptive", "placement adaptive does not fit",
                    with_placement(s, AdaptiveOffload{}));
}

// First what recomputes less.
Change more_recompute(std::string_view what, const Scenario& s) {
    const bool three_way = std::holds_alternative<ThreeWay>(s.policy.placement);
    if (three_way && s.recomputes_layers()) return no_help(what, "the placement recomputes all it can");
    if (s.policy.inventory == Inventory::kPaper)
        return no_help(what, "inventory paper does not say what can be made again");
    Scenario changed = with_placement(s, ThreeWay{});
    if (!three_way) {
        Change change = one_step(what, "placement three-way", "placement three-way does not fit", changed);
        if (change.fit || s.recomputes_layers()) return change;
    }
    changed.policy.recompute = RecomputeScope::kLayer;
    const std::string how = three_way ? "recompute layer" : "placement three-way, recompute layer";
    return one_step(what, how, how + " does not fit", changed);
}

Change kv_to_host(std::string_view what, const Scenario& s) {
    if (s.policy.kv == KvPlacement::kOffload) return no_help(what, "the scenario allows it already");
    Scenario changed = s;
    changed.policy.kv = KvPlacement::kOffload;
    changed.policy.granularity = Granularity::kLayer;
    return one_step(what, "kv offload, granularity layer", "kv offload does not fit", changed);
}

Change shorter_sequence(std::string_view what, const Scenario& s) {
    if (s.policy.partition.kind == PartitionKind::kList) return no_help(what, "the scenario lists its lengths");
    MaxLength length = max_length(s);
    if (!length.longest) return no_help(what, "no length fits");
    const Tokens longest = length.longest->candidate.scenario.sequence;
    Change change{std::string(what), fmt::format("{} tokens", longest.value), s, std::move(length.longest), {}};
    change.before->sequence = longest + length.step;
    return change;
}

Bytes gib(std::int64_t count) { return 1_GiB * count; }
std::int64_t gib_below(Bytes bytes) { return bytes.value / (1_GiB).value; }

// Memory of a GPU or a node, `field` of the cluster, in whole GiB.
Change more_memory(std::string_view what, std::string_view of, const Scenario& s, Bytes& (*field)(Cluster&)) {
    const auto with = [&](Bytes bytes) {
        Scenario more = s;
        field(more.cluster) = bytes;
        return more;
    };
    Scenario now = s;
    const Bytes current = field(now.cluster);
    std::optional<PlacedCandidate> most = FitSearch().find(with(kMostMemory));
    if (!most || !most->fits()) return no_help(what, fmt::format("no amount up to 1 PiB per {} fits", of));
    const Steps steps{gib_below(current), gib_below(kMostMemory),
                      [&](std::int64_t count) { return with(std::max(gib(count), current)); }};
    std::optional<StepFound> found = smallest_step(steps);
    if (!found) return no_help(what, fmt::format("no amount up to 1 PiB per {} fits", of));
    std::string how = fmt::format("{} GiB per {}", found->value, of);
    return from_steps(what, std::move(how), steps, std::move(*found));
}

Change more_host_memory(std::string_view what, const Scenario& s) {
    return more_memory(what, "node", s, [](Cluster& c) -> Bytes& { return c.host.memory; });
}

Change more_gpu_memory(std::string_view what, const Scenario& s) {
    return more_memory(what, "GPU", s, [](Cluster& c) -> Bytes& { return c.gpu.memory; });
}

struct Kind {
    std::string_view what;
    Change (*find)(std::string_view what, const Scenario&);
};
constexpr Kind kKinds[] = {{"more GPUs", more_gpus},
                           {"more subsequences", more_subsequences},
                           {"other degrees", other_degrees},
                           {"offload", offload},
                           {"more recompute", more_recompute},
                           {"K and V offloaded", kv_to_host},
                           {"shorter sequence", shorter_sequence},
                           {"more host memory", more_host_memory},
                           {"more GPU memory", more_gpu_memory}};

// Really plans what was found to fit.
void plan_in_full(Change& change) {
    PlannedStep step = plan_step(change.fit->candidate.scenario);
    SLUICE_CHECK(step.feasible(), "what was found to fit can be planned");
    change.fit->memory = std::move(step.memory);
    change.estimate = step.estimate;
}

}  // namespace

std::vector<Change> smallest_changes(const Scenario& scenario, const SmallestChangeOptions& options) {
    std::vector<Change> changes;
    for (const Kind& kind : kKinds) {
        if (options.progress)
            options.progress(kind.what, static_cast<double>(changes.size()) / static_cast<double>(std::size(kKinds)));
        changes.push_back(kind.find(kind.what, scenario));
        if (changes.back().fit) plan_in_full(changes.back());
    }
    return changes;
}

}  // namespace sluice
