// A scenario: everything a plan depends on. Read from one YAML file and the files it names; immutable afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "scenarios/architecture.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "scenarios/run_terms.h"

namespace sluice {

enum class DataType : std::uint8_t { kBf16, kFp32 };
constexpr Bytes size_of(DataType t) { return t == DataType::kBf16 ? 2_B : 4_B; }

struct Precision {
    DataType weights = DataType::kBf16;       // and activations
    DataType gradients = DataType::kFp32;     // weight-gradient accumulators
    DataType kv_gradients = DataType::kFp32;  // dK/dV accumulators
};

// What the t ranks of a sequence-parallel group share out.
enum class SequenceParallelKind : std::uint8_t {
    kMegatron,  // weights, heads and vocabulary; outside matmuls and attention the tokens (Korthikanti et al. 2022)
    kUlysses,   // the tokens, but in attention the heads; every rank has all weights (Jacobs et al. 2023)
};
// What a layer keeps of its two gathered inputs for backward: the rank's own rows, gathered again there (Korthikanti et
// al. 2022, section 4.2.2), or all rows, which costs memory and saves the second gather.
enum class SavedInputs : std::uint8_t { kShard, kGathered };
enum class PartitionKind : std::uint8_t { kFlops, kCost, kEqual, kList };
enum class CausalCount : std::uint8_t {
    kExact,
    kUncut
};  // of attention FLOPs: the causal half exactly, or as if no mask cut it
// Subsequence-major: all layers of a subsequence, then the next one, as a pipeline needs. Layer-major: all subsequences of
// a layer, then the next layer; one stage, granularity layer.
enum class TraversalOrder : std::uint8_t { kSubsequenceMajor, kLayerMajor };
enum class Granularity : std::uint8_t { kStage, kLayer };
enum class Inventory : std::uint8_t { kRuntime, kLean, kPaper };  // which table of activations: docs/memory.md

// What the ranks of a data-parallel group share out instead of each holding a copy: ZeRO stages 0 to 3 (arXiv
// 1910.02054, section 5). Each stage includes the ones before.
enum class ZeroStage : std::uint8_t { kNone, kOptimizer, kGradients, kParameters };

struct Partition {
    PartitionKind kind = PartitionKind::kFlops;
    CausalCount count = CausalCount::kExact;
    std::vector<Tokens> lengths;  // kList only; sums to the sequence
    Tokens alignment{1};          // boundaries are multiples of it
};

struct KeepAll {};     // none: alpha = 0
struct OffloadAll {};  // full: alpha = 1, the last subsequence included
struct OffloadRatio {
    double alpha = 0;
};                          // the same alpha for every subsequence
struct AdaptiveOffload {};  // as little as memory demands, hidden behind compute
struct RecomputeAll {};     // every cheap tensor is made again, nothing is offloaded
struct ThreeWay {};         // each unit kept, offloaded or recomputed, for the least time
using PlacementPolicy = std::variant<KeepAll, OffloadAll, OffloadRatio, AdaptiveOffload, RecomputeAll, ThreeWay>;
// What a recomputed unit drops: what a few matmuls and norms give again, or all but the block input, attention's
// results included.
enum class RecomputeScope : std::uint8_t { kAllButAttention, kLayer };

// Choices that the scenario leaves to the planner ("auto"); the fields themselves then hold 1, or their defaults.
struct Automatic {
    bool sp = false, pp = false, n = false, partition = false;
    bool alignment = false;  // follows the chosen sp
    bool dp = false, zero = false;
    bool placement = false;  // the field holds ThreeWay
    bool order = false;
    bool any() const { return sp || pp || n || partition || dp || zero || placement || order; }
};

// Whether K and V may leave the GPU when nothing else fits.
enum class KvPlacement : std::uint8_t { kResident, kOffload };

struct Policy {
    SequenceParallelKind sp_kind = SequenceParallelKind::kMegatron;
    std::int64_t sp = 1;  // ranks of a sequence-parallel group
    SavedInputs saved_inputs = SavedInputs::kShard;  // kMegatron only
    std::int64_t pp = 1;  // pipeline stages
    std::int64_t n = 1;   // subsequences
    std::int64_t dp = 1;  // replicas; each runs batch / dp sequences of a step
    ZeroStage zero = ZeroStage::kNone;
    std::vector<std::int64_t> stage_layers;  // of each stage, first to last; empty: split_layers() decides
    Partition partition;
    PlacementPolicy placement;
    RecomputeScope recompute = RecomputeScope::kAllButAttention;
    KvPlacement kv = KvPlacement::kResident;
    TraversalOrder order = TraversalOrder::kSubsequenceMajor;
    Granularity granularity = Granularity::kStage;
    Inventory inventory = Inventory::kRuntime;
    Automatic automatic;

    bool may_recompute() const {
        return std::holds_alternative<RecomputeAll>(placement) || std::holds_alternative<ThreeWay>(placement);
    }
};

// Another job on every node, as a constant load. Its part is already taken off what `cluster` offers: the bytes are in
// host.reserved, the rates are off host.bandwidth.
struct OtherJob {
    Bytes host_memory{};        // that it holds, per node, spread evenly over the NUMA nodes
    BytesPerSecond d2h{}, h2d{};  // that its copies take from the DRAM of each NUMA node
};

struct Scenario {
    std::string name;
    Architecture model;
    Cluster cluster;
    Calibration calibration;
    Tokens sequence{};
    std::int64_t batch = 1;  // sequences per step
    Precision precision;
    Policy policy;
    OtherJob other_job;
    RunTerms run;
    std::string fingerprint;  // of the text of all files read

    std::int64_t ranks_of_stage() const { return policy.sp * policy.dp; }
    std::int64_t ranks() const { return ranks_of_stage() * policy.pp; }
    std::int64_t sequences_of_replica() const { return batch / policy.dp; }
    // One rank alone shares nothing out: then both kinds are the same.
    bool ulysses() const { return policy.sp > 1 && policy.sp_kind == SequenceParallelKind::kUlysses; }
    bool splits_weights() const { return policy.sp > 1 && !ulysses(); }
    // Ranks of the group that hold a weight matrix, or the vocabulary, together.
    std::int64_t weight_shards() const { return ulysses() ? 1 : policy.sp; }
    bool recomputes_layers() const { return policy.recompute == RecomputeScope::kLayer; }
    bool saves_gathered() const { return splits_weights() && policy.saved_inputs == SavedInputs::kGathered; }
    // Is what ZeRO shares out from `stage` on shared out here? Never without replicas.
    bool shares(ZeroStage stage) const { return policy.dp > 1 && policy.zero >= stage; }
};

// Reads a scenario and what it names: `architectures/NAME.yaml`, `clusters/NAME.yaml`, `calibrations/NAME.yaml` beside
// the scenario file or, failing that, in the installed scenarios folder. Throws InputError, one line: "file:line:col:
// what, got, expected, suggestion". The result satisfies every limit that docs/scenarios.md states.
Scenario read_scenario(const std::filesystem::path& path);

// The same from text; `origin` names it in messages, `folder` is where named files are looked for.
Scenario parse_scenario(std::string_view text, std::string_view origin, const std::filesystem::path& folder);

}  // namespace sluice
