#include "scenarios/read_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/nearest_name.h"
#include "scenarios/quote.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostRanks = 1048576;
constexpr std::int64_t kMostSubsequences = 65536;
constexpr Limits<Tokens> kTokenLimits{Tokens{1}, Tokens{std::int64_t{1} << 30}, "1 token ... 1 Gi tokens"};

constexpr std::string_view kKeys[] = {"sp",        "pp",        "dp", "zero",  "stages",      "n",        "partition",
                                      "placement", "recompute", "kv", "order", "granularity", "inventory"};
constexpr std::string_view kPlannedKeys[] = {"virtual_stages", "multiplexing"};
constexpr std::string_view kSpKeys[] = {"kind", "degree", "save"};
constexpr Choice<SavedInputs> kSavedInputs[] = {{"shard", SavedInputs::kShard}, {"gathered", SavedInputs::kGathered}};
constexpr std::string_view kPartitionKeys[] = {"kind", "list", "count", "alignment"};
constexpr std::string_view kPlacementKeys[] = {"ratio"};

constexpr Choice<SequenceParallelKind> kSpKinds[] = {{"megatron", SequenceParallelKind::kMegatron},
                                                     {"ulysses", SequenceParallelKind::kUlysses}};
constexpr std::string_view kPlannedSpKinds[] = {"ring", "context"};
constexpr Choice<PartitionKind> kPartitionKinds[] = {
    {"flops", PartitionKind::kFlops}, {"cost", PartitionKind::kCost}, {"equal", PartitionKind::kEqual}};
constexpr Choice<CausalCount> kCounts[] = {{"exact", CausalCount::kExact}, {"uncut", CausalCount::kUncut}};
constexpr Choice<KvPlacement> kKvPlacements[] = {{"resident", KvPlacement::kResident},
                                                 {"offload", KvPlacement::kOffload}};
constexpr Choice<TraversalOrder> kOrders[] = {{"subsequence", TraversalOrder::kSubsequenceMajor},
                                              {"layer", TraversalOrder::kLayerMajor}};
constexpr Choice<Granularity> kGranularities[] = {{"stage", Granularity::kStage}, {"layer", Granularity::kLayer}};
constexpr Choice<ZeroStage> kZeroStages[] = {
    {"0", ZeroStage::kNone}, {"1", ZeroStage::kOptimizer}, {"2", ZeroStage::kGradients}, {"3", ZeroStage::kParameters}};
constexpr Choice<Inventory> kInventories[] = {
    {"runtime", Inventory::kRuntime}, {"lean", Inventory::kLean}, {"paper", Inventory::kPaper}};
enum class PlacementName : std::uint8_t { kNone, kFull, kAdaptive, kRecompute, kThreeWay };
constexpr Choice<PlacementName> kPlacements[] = {{"none", PlacementName::kNone},
                                                 {"full", PlacementName::kFull},
                                                 {"adaptive", PlacementName::kAdaptive},
                                                 {"recompute", PlacementName::kRecompute},
                                                 {"three-way", PlacementName::kThreeWay}};
constexpr Choice<RecomputeScope> kRecomputeScopes[] = {{"all_but_attention", RecomputeScope::kAllButAttention},
                                                       {"layer", RecomputeScope::kLayer}};
constexpr std::string_view kListForm = "auto or {list: [TOKENS, ...]}";
constexpr std::string_view kRatioForm = "auto or {ratio: 0 ... 1}";

std::string_view unit_of(Tokens tokens) { return tokens.value == 1 ? "token" : "tokens"; }

// Every rank of a sequence-parallel group holds an equal share of the heads; with kind megatron of the weights and the
// vocabulary, too.
void expect_sp_divides(const YamlField& field, std::int64_t sp, SequenceParallelKind kind, const Architecture& model) {
    const bool weights = kind == SequenceParallelKind::kMegatron;
    const struct {
        std::string_view name;
        std::int64_t value;
        bool shared_out = true;
    } parts[] = {{"heads", model.heads},
                 {"kv_heads", model.kv_heads},
                 {"hidden", model.hidden, weights},
                 {"ffn", model.ffn, weights}};
    for (const auto& part : parts)
        if (part.shared_out && part.value % sp != 0)
            fail(field, fmt::format("got {}, which does not divide {} {} of model {}, expected a divisor", sp,
                                    part.name, part.value, model.name));
    if (weights && model.vocabulary % sp != 0)
        fail(field,
             fmt::format(
                 "got {}, which does not divide vocabulary {} of model {}, expected a padded vocabulary such as {}", sp,
                 model.vocabulary, model.name, (model.vocabulary / sp + 1) * sp));
}

bool is_auto(const YamlField& field) { return field.node->kind == YamlKind::kScalar && read_text(field) == "auto"; }

// Of a number that may be left to the planner. Another word is refused here, where the choice is known.
bool is_auto_count(const YamlField& field) {
    if (field.node->kind != YamlKind::kScalar) return false;
    const std::string_view text = read_text(field);
    static constexpr std::string_view kAuto[] = {"auto"};
    const bool word = (text.front() >= 'a' && text.front() <= 'z') || (text.front() >= 'A' && text.front() <= 'Z');
    if (word && text != "auto")
        fail(field, fmt::format("got {}, expected a bare whole number or auto{}", quote(text),
                                nearest_name(text, kAuto).empty() ? "" : "; did you mean \"auto\"?"));
    return text == "auto";
}

void read_sp(const YamlField& field, const Architecture& model, Policy& policy) {
    expect_keys(field, kSpKeys);
    if (const auto kind = find(field, "kind")) policy.sp_kind = read_choice(*kind, kSpKinds, kPlannedSpKinds);
    if (const auto save = find(field, "save")) {
        policy.saved_inputs = read_choice(*save, kSavedInputs);
        if (policy.sp_kind == SequenceParallelKind::kUlysses)
            fail(*save, fmt::format("got {} with kind ulysses, which gathers no inputs, expected no key save",
                                    read_text(*save)));
    }
    const YamlField degree = get(field, "degree");
    policy.automatic.sp = policy.automatic.alignment = is_auto_count(degree);
    if (policy.automatic.sp) return;
    policy.sp = read_count(degree, kMostRanks);
    expect_sp_divides(degree, policy.sp, policy.sp_kind, model);
}

void read_pp(const YamlField& field, const Architecture& model, Policy& policy) {
    policy.automatic.pp = is_auto_count(field);
    if (policy.automatic.pp) return;
    policy.pp = read_count(field, kMostRanks);
    if (policy.pp > model.layers)
        fail(field, fmt::format("got {} stages for the {} layers of model {}, expected at most one stage per layer",
                                policy.pp, model.layers, model.name));
}

void read_dp(const YamlField& field, std::int64_t batch, Policy& policy) {
    policy.automatic.dp = is_auto_count(field);
    if (policy.automatic.dp) return;
    policy.dp = read_count(field, kMostRanks);
    if (batch % policy.dp != 0)
        fail(field, fmt::format("got {} replicas for a batch of {} {}, expected a divisor of the batch: every replica "
                                "runs the same number of sequences",
                                policy.dp, batch, batch == 1 ? "sequence" : "sequences"));
}

void read_zero(const YamlField& field, Policy& policy) {
    policy.automatic.zero = is_auto(field);
    if (policy.automatic.zero) return;
    policy.zero = read_choice(field, kZeroStages, {}, "auto");
    if (policy.zero != ZeroStage::kNone && policy.dp == 1 && !policy.automatic.dp)
        fail(field, fmt::format("got {} without data parallelism, expected 0, or dp above 1: ZeRO shares out what "
                                "replicas hold several times",
                                read_text(field)));
}

// "sp x pp = 8 x 4 = 32": those of the degrees that are fixed; dp only where it says something.
std::string degrees_text(const Policy& policy) {
    std::string names, values;
    int count = 0;
    const auto add = [&](std::string_view name, std::int64_t value) {
        names += fmt::format("{}{}", count == 0 ? "" : " x ", name);
        values += fmt::format("{}{}", count == 0 ? "" : " x ", value);
        ++count;
    };
    if (!policy.automatic.sp) add("sp", policy.sp);
    if (!policy.automatic.pp) add("pp", policy.pp);
    if (!policy.automatic.dp && policy.dp > 1) add("dp", policy.dp);
    return count > 1 ? fmt::format("{} = {} = {}", names, values, policy.sp * policy.pp * policy.dp)
                     : fmt::format("{} = {}", names, values);
}

// Idle GPUs would falsify every figure per GPU.
void expect_all_gpus(const YamlField& field, const Policy& policy, const Cluster& cluster) {
    const std::int64_t ranks = policy.sp * policy.pp * policy.dp;
    if (policy.automatic.sp || policy.automatic.pp || policy.automatic.dp) {
        if (cluster.gpus() % ranks == 0) return;
        fail(field, fmt::format("got {}, which does not divide the {} GPUs of cluster {}, expected a divisor",
                                degrees_text(policy), cluster.gpus(), cluster.name));
    }
    if (ranks == cluster.gpus()) return;
    const bool whole_nodes = ranks % cluster.gpus_per_node == 0;
    fail(field, fmt::format("{}, but cluster {} has {} x {} = {} GPUs, expected equal numbers{}", degrees_text(policy),
                            cluster.name, cluster.nodes, cluster.gpus_per_node, cluster.gpus(),
                            whole_nodes ? fmt::format("; for instance cluster: {{use: {}, nodes: {}}}", cluster.name,
                                                      ranks / cluster.gpus_per_node)
                                        : ""));
}

void read_stages(const YamlField& field, const Architecture& model, Policy& policy) {
    if (policy.automatic.pp) fail(field, "got layers of each stage with pp auto, expected the number of stages as pp");
    std::int64_t sum = 0;
    for (const YamlField& item : items(field)) {
        policy.stage_layers.push_back(read_count(item, model.layers));
        sum += policy.stage_layers.back();
    }
    if (static_cast<std::int64_t>(policy.stage_layers.size()) != policy.pp)
        fail(field, fmt::format("got {} stages, expected pp = {}", policy.stage_layers.size(), policy.pp));
    if (sum != model.layers)
        fail(field,
             fmt::format("the stages sum to {} layers, expected the {} of model {}", sum, model.layers, model.name));
}

void read_lengths(const YamlField& field, Partition& partition) {
    partition.kind = PartitionKind::kList;
    for (const YamlField& item : items(field)) partition.lengths.push_back(read_tokens(item, kTokenLimits));
}

void expect_lengths_fit(const YamlField& field, const Partition& partition, std::int64_t n, Tokens sequence) {
    if (static_cast<std::int64_t>(partition.lengths.size()) != n)
        fail(field, fmt::format("got {} lengths, expected n = {}", partition.lengths.size(), n));
    Tokens sum{};
    const std::vector<YamlField> fields = items(field);
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Tokens length = partition.lengths[i];
        if (length.value % partition.alignment.value != 0)
            fail(fields[i], fmt::format("got {} {}, expected a multiple of the alignment, {} {}", length.value,
                                        unit_of(length), partition.alignment.value, unit_of(partition.alignment)));
        sum += length;
    }
    if (sum != sequence)
        fail(field, fmt::format("the lengths sum to {} tokens, expected the sequence's {}", sum.value, sequence.value));
}

Tokens read_alignment(const YamlField& field, std::int64_t sp) {
    const Tokens alignment = read_tokens(field, kTokenLimits);
    if (alignment.value % sp != 0)
        fail(field, fmt::format("got {} {}, expected a multiple of sp, {}", alignment.value, unit_of(alignment), sp));
    return alignment;
}

void read_partition_mapping(const YamlField& field, std::int64_t sp, Partition& partition) {
    expect_keys(field, kPartitionKeys);
    const auto list = find(field, "list");
    if (list && find(field, "kind")) fail(field, "got kind and list, expected one of them");
    if (list)
        read_lengths(*list, partition);
    else
        partition.kind = read_choice(get(field, "kind"), kPartitionKinds);
    if (const auto count = find(field, "count")) {
        if (partition.kind != PartitionKind::kFlops) fail(*count, "goes with kind: flops only");
        partition.count = read_choice(*count, kCounts);
    }
    if (const auto alignment = find(field, "alignment")) partition.alignment = read_alignment(*alignment, sp);
}

Partition read_partition(const std::optional<YamlField>& field, Policy& policy) {
    Partition partition;
    partition.alignment = Tokens{policy.sp};
    if (!field) return partition;
    policy.automatic.partition = is_auto(*field);
    if (policy.automatic.partition) return partition;
    if (field->node->kind == YamlKind::kMapping && find(*field, "alignment")) policy.automatic.alignment = false;
    if (field->node->kind == YamlKind::kMapping)
        read_partition_mapping(*field, policy.sp, partition);
    else if (read_text(*field) == "list")
        fail(*field, "got \"list\", expected the lengths: {list: [\"1024 tokens\", ...]}");
    else
        partition.kind = read_choice(*field, kPartitionKinds, {}, kListForm);
    return partition;
}

// `field`: the policy. Messages point at n, the alignment or the list, whichever is wrong.
void expect_subsequences_fit(const YamlField& field, const Policy& policy, Tokens sequence) {
    const Tokens alignment = policy.partition.alignment;
    if (sequence.value % alignment.value != 0) {
        const auto partition = find(field, "partition");
        const auto given = partition ? find(*partition, "alignment") : std::nullopt;
        const std::int64_t below = sequence.value / alignment.value * alignment.value;
        fail(given ? *given : field,
             fmt::format("the sequence of {} {} is not a multiple of the alignment, {} {}; expected {}{} tokens",
                         sequence.value, unit_of(sequence), alignment.value, unit_of(alignment),
                         below > 0 ? fmt::format("{} or ", below) : "", below + alignment.value));
    }
    const std::int64_t most = sequence.value / alignment.value;
    if (policy.n > most)
        fail(get(field, "n"),
             fmt::format("got {} subsequences of at least {} {} for a sequence of {}, expected at most {}", policy.n,
                         alignment.value, unit_of(alignment), sequence.value, most));
    if (policy.partition.kind == PartitionKind::kList)
        expect_lengths_fit(get(get(field, "partition"), "list"), policy.partition, policy.n, sequence);
}

PlacementPolicy read_placement(const YamlField& field, Automatic& automatic) {
    automatic.placement = is_auto(field);
    if (automatic.placement) return ThreeWay{};
    if (field.node->kind == YamlKind::kMapping) {
        expect_keys(field, kPlacementKeys);
        return OffloadRatio{read_ratio(get(field, "ratio"))};
    }
    if (field.node->kind == YamlKind::kSequence)
        fail(field, "got a list, expected a name such as adaptive, or {ratio: 0 ... 1}");
    if (read_text(field) == "ratio") fail(field, "got \"ratio\", expected the share: {ratio: 0.5}");
    switch (read_choice(field, kPlacements, {}, kRatioForm)) {
        case PlacementName::kNone:
            return KeepAll{};
        case PlacementName::kFull:
            return OffloadAll{};
        case PlacementName::kAdaptive:
            return AdaptiveOffload{};
        case PlacementName::kRecompute:
            return RecomputeAll{};
        case PlacementName::kThreeWay:
            return ThreeWay{};
    }
    return AdaptiveOffload{};
}

RecomputeScope read_recompute(const YamlField& field, const Policy& policy) {
    const RecomputeScope scope = read_choice(field, kRecomputeScopes);
    if (!policy.may_recompute())
        fail(field, fmt::format("got {} with a placement that recomputes nothing, expected placement: recompute, "
                                "three-way or auto",
                                read_text(field)));
    return scope;
}

// The published table says what is saved, not what could be made again.
void expect_recomputable(const YamlField& field, const Policy& policy) {
    if (policy.may_recompute() && policy.inventory == Inventory::kPaper)
        fail(get(field, "placement"),
             "got a placement that recomputes with inventory paper, expected inventory: runtime or lean");
}

KvPlacement read_kv(const YamlField& field, const Policy& policy) {
    const KvPlacement kv = read_choice(field, kKvPlacements);
    if (kv == KvPlacement::kOffload && policy.granularity == Granularity::kStage)
        fail(field, "got offload with granularity stage, expected granularity: layer");
    return kv;
}

void read_order(const YamlField& field, Policy& policy) {
    policy.automatic.order = is_auto(field);
    if (policy.automatic.order) return;
    policy.order = read_choice(field, kOrders);
    if (policy.order == TraversalOrder::kSubsequenceMajor) return;
    if (policy.automatic.pp || policy.pp > 1)
        fail(field, fmt::format("got layer with {} stages, expected pp: 1; a pipeline goes by subsequences",
                                policy.automatic.pp ? "auto" : std::to_string(policy.pp)));
    if (policy.granularity == Granularity::kStage)
        fail(field, "got layer with granularity stage, expected granularity: layer");
}

void refuse_planned_keys(const YamlField& field) {
    for (const YamlEntry& entry : field.node->entries) {
        if (std::find(std::begin(kPlannedKeys), std::end(kPlannedKeys), entry.key) == std::end(kPlannedKeys)) continue;
        YamlField at = field;
        at.place = entry.place;
        fail(at, fmt::format("key {} is not supported yet, expected it to be left out", quote(entry.key)));
    }
}

}  // namespace

Policy read_policy(const YamlField& field, const Scenario& scenario) {
    if (field.node->kind == YamlKind::kScalar)
        fail(field, "got a single value, expected a mapping such as {sp: {degree: auto}, pp: auto, n: auto}");
    if (field.node->kind == YamlKind::kMapping) refuse_planned_keys(field);
    expect_keys(field, kKeys);
    Policy policy;
    read_sp(get(field, "sp"), scenario.model, policy);
    read_pp(get(field, "pp"), scenario.model, policy);
    if (const auto dp = find(field, "dp")) read_dp(*dp, scenario.batch, policy);
    if (const auto zero = find(field, "zero")) read_zero(*zero, policy);
    expect_all_gpus(field, policy, scenario.cluster);
    if (const auto stages = find(field, "stages")) read_stages(*stages, scenario.model, policy);
    const YamlField n = get(field, "n");
    policy.automatic.n = is_auto_count(n);
    if (!policy.automatic.n) policy.n = read_count(n, kMostSubsequences);
    policy.partition = read_partition(find(field, "partition"), policy);
    if (policy.automatic.n && policy.partition.kind == PartitionKind::kList)
        fail(n, "got auto with a list of lengths, expected their number");
    expect_subsequences_fit(field, policy, scenario.sequence);
    const auto placement = find(field, "placement");
    policy.placement = placement ? read_placement(*placement, policy.automatic) : AdaptiveOffload{};
    if (const auto recompute = find(field, "recompute")) policy.recompute = read_recompute(*recompute, policy);
    if (const auto granularity = find(field, "granularity"))
        policy.granularity = read_choice(*granularity, kGranularities);
    if (const auto inventory = find(field, "inventory")) policy.inventory = read_choice(*inventory, kInventories);
    expect_recomputable(field, policy);
    if (const auto kv = find(field, "kv")) policy.kv = read_kv(*kv, policy);
    if (const auto order = find(field, "order")) read_order(*order, policy);
    return policy;
}

}  // namespace sluice
