// What the ops of a rank need beyond their operands: the model, where its parameters stand, the tokens of the step.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "runtime/communicators.h"
#include "runtime/cpu/rotary_table.h"
#include "runtime/decoder/step_inputs.h"
#include "runtime/kernel_clock.h"
#include "runtime/parameter_layout.h"
#include "runtime/rank_arenas.h"
#include "runtime/run_shape.h"
#include "runtime/vocabulary_shard.h"
#include "scenarios/scenario.h"
#include "schedule/schedule.h"

namespace sluice {

// A rank, and the sizes of what it computes.
struct RankSizes {
    const Scenario& scenario;
    const RunShape& shape;
    const Schedule& schedule;
    const RankArenas& arenas;
    const ParameterLayout& layout;
    Rank rank{};

    const Architecture& model() const { return scenario.model; }
    const RankRole& role() const { return shape.ranks[index(rank)]; }
    const RunSubsequence& subsequence(const Op& op) const {
        return shape.subsequences[static_cast<std::size_t>(op.tag.subsequence)];
    }
    // Sizes on this rank.
    std::int64_t heads() const { return model().heads / shape.shards; }
    std::int64_t kv_heads() const { return model().kv_heads / shape.shards; }
    std::int64_t query_width() const { return heads() * model().head_dim; }
    std::int64_t kv_width() const { return kv_heads() * model().head_dim; }
    std::int64_t ffn() const { return model().ffn / shape.shards; }
    std::int64_t first_width() const { return gated() ? 2 * ffn() : ffn(); }
    bool gated() const { return model().activation == ActivationFunction::kSwiglu; }
    VocabularyShard vocabulary() const { return vocabulary_shard(model().vocabulary, shape.shards, role().shard); }
    // Of a subsequence: all its tokens, those of this rank's shard, and where the shard begins among them.
    std::int64_t tokens(const Op& op) const { return subsequence(op).length.value; }
    std::int64_t rows(const Op& op) const { return tokens(op) / shape.shards; }
    std::int64_t first_row(const Op& op) const { return role().shard * rows(op); }
};

// What ops of a rank on the CPU need beside that.
struct RankContext : RankSizes {
    std::span<const float> rotary;  // table of all positions; empty without RoPE
    Communicators& communicators;
    Communicator* shards = nullptr;  // of the rank's sequence-parallel group, for exchanges inside the loss
    const StepInputs& inputs;
    StepFindings& findings;
};

// An op ready to run: everything it needs is found. Allocates nothing when called.
using BoundOp = std::function<void(KernelClock&)>;

}  // namespace sluice
