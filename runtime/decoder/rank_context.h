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
#include "runtime/stand_in.h"
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
    // With Ulysses a rank has its tokens' rows of all heads outside attention, and all weights.
    bool exchanges_heads() const { return shape.shards > shape.weight_shards; }
    // Which part of the weights this rank has.
    std::int64_t weight_shard() const { return exchanges_heads() ? 0 : role().shard; }
    // Sizes on this rank: of its attention,
    std::int64_t heads() const { return model().heads / shape.shards; }
    std::int64_t kv_heads() const { return model().kv_heads / shape.shards; }
    std::int64_t query_width() const { return heads() * model().head_dim; }
    std::int64_t kv_width() const { return kv_heads() * model().head_dim; }
    // and of its weights.
    std::int64_t query_outputs() const { return model().heads / shape.weight_shards * model().head_dim; }
    std::int64_t kv_outputs() const { return model().kv_heads / shape.weight_shards * model().head_dim; }
    std::int64_t ffn() const { return model().ffn / shape.weight_shards; }
    std::int64_t first_width() const { return gated() ? 2 * ffn() : ffn(); }
    bool gated() const { return model().activation == ActivationFunction::kSwiglu; }
    VocabularyShard vocabulary() const {
        return vocabulary_shard(model().vocabulary, shape.weight_shards, weight_shard());
    }
    // Of a subsequence: all its tokens; those of this rank's shard, and their first position in the sequence.
    std::int64_t tokens(const Op& op) const { return subsequence(op).length.value; }
    std::int64_t rows(const Op& op) const { return tokens(op) / shape.shards; }
    Tokens first_position(const Op& op) const { return subsequence(op).begin + Tokens{role().shard * rows(op)}; }
    // Rows of what products with weights read and make: of all tokens, or only the rank's; and which of them are the
    // rank's own.
    std::int64_t matmul_rows(const Op& op) const { return exchanges_heads() ? rows(op) : tokens(op); }
    std::int64_t first_row(const Op& op) const { return weight_shard() * rows(op); }
};

// What ops of a rank on the CPU need beside that.
struct RankContext : RankSizes {
    std::span<const float> rotary;  // table of all positions; empty without RoPE
    Communicators& communicators;
    Communicator* shards = nullptr;  // where they share out the vocabulary, for exchanges inside the loss
    const StepInputs& inputs;
    StepFindings& findings;
    const StandIns* stand_ins = nullptr;       // where it runs without partners
    const std::int64_t* step_begin = nullptr;  // steady_now(), with stand-ins
};

// An op ready to run: everything it needs is found. Allocates nothing when called.
using BoundOp = std::function<void(KernelClock&)>;

}  // namespace sluice
