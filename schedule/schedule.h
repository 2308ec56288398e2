// The schedule: what every rank does in one training step. Work, never time: FLOPs, bytes and seconds are computed from it
// elsewhere. A planner writes it, verify() guards it, a simulator replays it and a runtime executes it.
//
// Five rules are the whole semantics; every reader implements exactly these:
//   1. lane order  ops of one (rank, lane) start in listed order and do not overlap
//   2. after       an op starts only when all ops of `after` have ended
//   3. match       partners of a send/receive or a collective start when all are ready, and end together
//   4. life        a block lives from its first writer's start to its last user's end; a persistent buffer always lives
//   5. place       two buffers share bytes only if every use of one happens before every use of the other by rules 1-3,
//                  asked among the ops of one rank
// docs/schedule.md has the text form, docs/schedule-rules.md what verify() refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "base/units.h"

namespace sluice {

// ---- Work ------------------------------------------------------------------------------------------------------------

// C[m, n] = A[m, k] B[k, n], one call.
struct Gemm {
    std::int64_t m = 0, n = 0, k = 0;
    friend bool operator==(const Gemm&, const Gemm&) = default;
};

enum class Pass : std::uint8_t { kForward, kBackward };

// Scaled-dot-product attention of the last `queries` of `keys` positions, aligned bottom-right: query q of the call sees
// keys 0 .. keys - queries + q when causal, all keys otherwise. Requires: queries <= keys when causal.
struct Attention {
    Pass pass = Pass::kForward;
    bool causal = true;
    std::int64_t queries = 0, keys = 0;  // tokens
    std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
    friend bool operator==(const Attention&, const Attention&) = default;
};

// Kernels bound by memory traffic. `traffic` is what they read plus what they write in device memory.
enum class PointwiseKind : std::uint8_t {
    kNorm, kRope, kActivation, kResidual, kEmbedding, kCrossEntropy, kAccumulate, kAdamw, kOther,
};
struct Pointwise {
    PointwiseKind kind = PointwiseKind::kOther;
    Bytes traffic{};
    friend bool operator==(const Pointwise&, const Pointwise&) = default;
};

using KernelShape = std::variant<Gemm, Attention, Pointwise>;

// `count` equal calls back to back (stage granularity folds the equal layers of a stage).
struct Kernel {
    KernelShape shape;
    std::uint32_t count = 1;
    friend bool operator==(const Kernel&, const Kernel&) = default;
};

// A chain of kernels in order. Traces carry one sub-span per kernel. An empty chain takes no time.
struct Compute {
    std::vector<Kernel> kernels;
    friend bool operator==(const Compute&, const Compute&) = default;
};

// Device -> host on lane copy-out, host -> device on lane copy-in. Accesses name both buffers.
struct Copy {
    Bytes bytes{};
    friend bool operator==(const Copy&, const Copy&) = default;
};

// To / from the lane's peer. The k-th send of rank a on lane send(b) matches the k-th receive of b on lane receive(a).
struct Send {
    Bytes bytes{};
    friend bool operator==(const Send&, const Send&) = default;
};
struct Receive {
    Bytes bytes{};
    friend bool operator==(const Receive&, const Receive&) = default;
};

enum class CollectiveKind : std::uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllToAll, kBroadcast, kReduce };

// The k-th collective of a group on one member matches the k-th of that group on every other member.
// `bytes` is the whole tensor on one rank: gathered (all-gather), unreduced (reduce-scatter, all-reduce, reduce), sent
// by one rank to all (all-to-all), broadcast. `calls` equal calls are issued back to back.
struct Collective {
    CollectiveKind kind = CollectiveKind::kAllGather;
    GroupId group{};
    Bytes bytes{};
    std::uint32_t calls = 1;
    std::uint32_t root = 0;  // index into Group::members; broadcast and reduce only, else 0
    friend bool operator==(const Collective&, const Collective&) = default;
};

using Work = std::variant<Compute, Copy, Send, Receive, Collective>;

// ---- Lanes, tags, buffers --------------------------------------------------------------------------------------------

// A lane is one CUDA stream: one FIFO.
enum class LaneKind : std::uint8_t { kCompute, kCopyOut, kCopyIn, kCollective, kSend, kReceive };
struct Lane {
    LaneKind kind = LaneKind::kCompute;
    Rank peer = kNoRank;  // kSend: the destination; kReceive: the source; otherwise kNoRank
    friend auto operator<=>(const Lane&, const Lane&) = default;
};

enum class Phase : std::uint8_t { kForward, kBackward, kInputGrad, kWeightGrad, kRecompute, kOptimizer };

// Which part of the model an op computes or moves. With the phase it names the mathematics that a runtime runs
// (docs/functions.md has the table); a simulator does not need it. kNone: not said, as at stage granularity, where an op
// stands for several.
enum class Function : std::uint8_t {
    kNone,
    kEmbedding, kNorm1, kAttention, kNorm2, kMlp, kResidual, kFinalNorm, kLoss,
    kFinalNormGradient,                              // with the loss, in forward
    kNorms, kQuery,                                  // recompute: both norms; the query alone
    kAttentionWeight, kMlpWeight,                    // backward: the weight gradients that follow the data gradients
    kGradients, kReplicated, kTiedTable,             // reductions: of all gradients over replicas; of what all shards
                                                     // hold; of a table that two stages hold
    kGradientNorm, kAdamw,
    kQkv, kProjection, kProjectionWeight,            // of attention, where an all-to-all stands between it and these;
                                                     // backward: gradients of data and weights, or of one of them
    kActivation,                                     // recompute: the MLP's activation alone
};

// What the op is for. -1 where it does not apply (an optimizer op has no subsequence, a stage op no layer).
struct Tag {
    Phase phase = Phase::kForward;
    std::int32_t sequence = 0;
    std::int32_t stage = -1;
    std::int32_t virtual_stage = -1;  // interleaving
    std::int32_t layer = -1;          // global index
    std::int32_t subsequence = -1;
    std::int32_t part = -1;           // multiplexed part
    Function function = Function::kNone;
    friend bool operator==(const Tag&, const Tag&) = default;
};

enum class Space : std::uint8_t { kDevice, kHost };
enum class BufferKind : std::uint8_t {
    kWeights, kGrads, kOptimizer, kKv, kDkv, kActivation, kStaging, kWorkspace, kComm,
};
inline constexpr std::size_t kBufferKinds = 9;

// What a layer saves of one subsequence for its backward pass, and a rank's share of it: rows of all tokens for
// kQuery, kAttentionOutput and kLogSumExp ([head][token]) and, where weights are shared out, for kFirstMlpOutput and
// kActivationOutput (columns are shared out), else rows of the rank's tokens. Statistics are fp32, LayerNorm's means before its reciprocals.
enum class Tensor : std::uint8_t {
    kBlockInput, kNorm1Statistics, kNorm1Output, kQuery, kAttentionOutput, kLogSumExp, kMiddleResidual,
    kNorm2Statistics, kNorm2Output, kFirstMlpOutput, kActivationOutput,
};
struct SavedTensor {
    Tensor tensor = Tensor::kBlockInput;
    Bytes bytes{};  // > 0
    friend bool operator==(const SavedTensor&, const SavedTensor&) = default;
};

// Bytes of one rank's device arena, or of its pinned host arena on the node it runs on.
// K and V of one layer are one buffer with a block per subsequence: attention reads blocks 0..i as one access.
struct Buffer {
    BufferId id{};
    Rank rank{};
    Space space = Space::kDevice;
    BufferKind kind = BufferKind::kActivation;
    bool persistent = false;           // lives across steps: weights, optimizer state
    Bytes bytes{};                     // > 0
    std::vector<Bytes> blocks;         // sizes, summing to `bytes`; empty: one block
    std::optional<Bytes> offset;       // in the arena; absent until memory placement
    std::vector<SavedTensor> tensors{};  // back to back, summing to `bytes`; empty: not tensors of a layer, or not said
    friend bool operator==(const Buffer&, const Buffer&) = default;

    std::uint32_t block_count() const { return blocks.empty() ? 1U : static_cast<std::uint32_t>(blocks.size()); }
};

enum class AccessMode : std::uint8_t { kRead, kWrite, kAccumulate };  // accumulate: reads, adds, writes
struct Access {
    BufferId buffer{};
    std::uint32_t first_block = 0, last_block = 0;  // inclusive
    AccessMode mode = AccessMode::kRead;
    friend bool operator==(const Access&, const Access&) = default;
};

// ---- The schedule ----------------------------------------------------------------------------------------------------

struct Op {
    OpId id{};
    Rank rank{};
    Lane lane;
    Work work;
    std::vector<OpId> after;  // ops of the same rank
    std::vector<Access> accesses;
    Tag tag;
    friend bool operator==(const Op&, const Op&) = default;
};

struct Host {  // a node's memory
    Bytes capacity{};
    friend bool operator==(const Host&, const Host&) = default;
};
struct RankPlace {
    HostId host{};
    Bytes device_capacity{};  // what buffers may use of the GPU
    friend bool operator==(const RankPlace&, const RankPlace&) = default;
};
struct Group {
    GroupId id{};
    std::vector<Rank> members;  // in ring order, no duplicates
    friend bool operator==(const Group&, const Group&) = default;
};

// Ids are dense: ops[i].id == i, likewise buffers, groups, and ranks and hosts by position. The ops of a rank are listed
// in the order in which its thread issues them; ops of different ranks may be interleaved in any way.
struct Schedule {
    std::vector<Host> hosts;
    std::vector<RankPlace> ranks;
    std::vector<Group> groups;
    std::vector<Buffer> buffers;
    std::vector<Op> ops;
    friend bool operator==(const Schedule&, const Schedule&) = default;
};

// ---- Names: one spelling for the text form, messages and traces -----------------------------------------------------

std::string_view name(Pass);            // forward backward
std::string_view name(PointwiseKind);   // norm rope activation residual embedding cross_entropy accumulate adamw other
std::string_view name(CollectiveKind);  // all_gather reduce_scatter all_reduce all_to_all broadcast reduce
std::string_view name(LaneKind);        // compute copy_out copy_in collective send receive
std::string_view name(Phase);           // forward backward input_grad weight_grad recompute optimizer
std::string_view name(Function);        // none embedding norm1 ... as above, in snake case
std::string_view name(Tensor);          // block_input norm1_statistics ... as above, in snake case
std::string_view name(Space);           // device host
std::string_view name(BufferKind);      // weights grads optimizer kv dkv activation staging workspace comm
std::string_view name(AccessMode);      // read write accumulate

}  // namespace sluice
