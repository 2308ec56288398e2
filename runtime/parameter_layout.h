// Where every parameter of the model stands on a rank: in its weights, and at the same place among its gradients and,
// unless replicas share these out, its optimizer's states.
//
// Linear layers are (out, in), one row per output. A sequence-parallel shard t of T has 1/T of the heads and of the MLP
// (Shoeybi et al. 2019, "Megatron-LM"): rows of the query, key, value and first MLP matrices and of their biases,
// columns of the projection and of the second MLP matrix, ceil(vocabulary / T) rows of the embedding and the head.
// Norms, the other biases and learned positions are whole on every shard. With Ulysses everything is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/run_shape.h"
#include "scenarios/scenario.h"

namespace sluice {

enum class Initial : std::uint8_t {
    kZero,
    kOne,
    kNormal,
    kResidual
};  // kResidual: normal, ends in the residual stream

// A parameter of the model, or the part of it that a rank holds; rows one behind the other.
struct ParameterSlice {
    std::string name;                    // as in Hugging Face's checkpoints of the family
    std::int64_t rows = 1, columns = 0;  // of the whole parameter; a vector is one row
    bool vector = false;                 // one dimension in the checkpoint
    bool transposed = false;             // the checkpoint has (in, out), as GPT-2's linear layers
    std::int64_t first_row = 0, held_rows = 1;
    std::int64_t first_column = 0, held_columns = 0;
    std::int64_t offset = 0;  // elements into the rank's weights
    std::size_t part = 0;     // of the layout's parts
    bool replicated = false;  // every shard holds all of it
    bool table = false;       // of the vocabulary
    bool decays = false;      // weight decay: matrices, not norms and biases
    Initial initial = Initial::kZero;
    // What of held() the rank steps: all, or its replica's share (share_states.h); and where its state begins in each
    // of the optimizer's arrays.
    std::int64_t first_stepped = 0, stepped = 0, state = 0;
    std::int64_t held() const { return held_rows * held_columns; }
};

// Offsets in elements. kAbsent where the architecture has no such parameter.
inline constexpr std::int64_t kAbsent = -1;
struct LayerOffsets {
    std::int64_t norm1 = 0, norm1_bias = kAbsent, qkv = 0, qkv_bias = kAbsent, projection = 0,
                 projection_bias = kAbsent;
    std::int64_t norm2 = 0, norm2_bias = kAbsent, first = 0, first_bias = kAbsent, second = 0, second_bias = kAbsent;
};
struct EmbeddingOffsets {
    std::int64_t table = 0, positions = kAbsent;
};
struct HeadOffsets {
    std::int64_t table = kAbsent;  // absent: the embedding's, on the same rank
    std::int64_t norm = 0, norm_bias = kAbsent;
};

// A part is what one buffer of gradients is for: a layer, the embedding, the head.
struct ParameterPart {
    std::int64_t offset = 0, elements = 0;
};

// Parameters of a part, side by side, that replicas share out as a whole.
struct SharedRun {
    std::size_t part = 0;
    std::int64_t offset = 0, elements = 0;  // offset into the rank's weights
};

struct ParameterLayout {
    std::vector<ParameterSlice> slices;  // by offset
    LayerOffsets layer;                  // from the start of a layer's part
    EmbeddingOffsets embedding;          // from the start of the part
    HeadOffsets head;
    std::vector<ParameterPart> parts;   // all of the rank, as they lie: layers, embedding, head
    std::vector<ParameterPart> layers;  // of the rank
    std::optional<ParameterPart> embedding_part, head_part;
    std::int64_t elements = 0;
    std::vector<SharedRun> shared;    // by offset, all of the rank's parameters; empty: each replica steps all
    std::int64_t state_elements = 0;  // of each of the optimizer's arrays
    bool copies_tied_table = false;   // the head's table is the embedding's, which another stage holds, too
};

ParameterLayout parameter_layout(const Scenario&, const RunShape&, Rank);

}  // namespace sluice
