// Causal attention of one subsequence against its prefix, by cuDNN's backend API (docs/cuda.md has the graphs and what
// was measured): runtime/cpu/causal_attention.h on bf16, rows of tokens, [head][head_dim] in a row, rows may lie apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/units.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

struct AttentionOperands {
    ConstBf16Matrix query;       // (length, heads * head_dim)
    ConstBf16Matrix key, value;  // (begin + length, kv_heads * head_dim)
};

struct AttentionSaved {
    Bf16Matrix out;                // (length, heads * head_dim)
    float* log_sum_exp = nullptr;  // [head][token]
};
struct ConstAttentionSaved {
    ConstBf16Matrix out;
    const float* log_sum_exp = nullptr;
};

struct AttentionGradients {
    Bf16Matrix query;       // (length, heads * head_dim): overwritten, not yet turned back by RoPE
    Fp32Matrix key, value;  // (begin + length, kv_heads * head_dim): accumulators
    bool begins = false;    // they are overwritten instead of added to
};

// The plans of one rank. A backward call is cut into the square of a subsequence's own keys, and its prefix unmasked,
// at most kKvGradientChunk keys at a time: a masked tile costs as much as another in cuDNN's backward. Every part
// leaves dQ, dK and dV in bf16 in the workspace; they are summed in fp32.
class AttentionPlans {
public:
    // `deterministic`: dQ repeats bit by bit; needs 2 * heads * queries * keys bytes more of workspace.
    explicit AttentionPlans(bool deterministic = false);
    ~AttentionPlans();
    AttentionPlans(const AttentionPlans&) = delete;
    AttentionPlans& operator=(const AttentionPlans&) = delete;

    // Builds the plans of a shape, once (up to 0.2 s each). Strides are those of the operands; every head_dim is the
    // innermost dimension. Throws InputError for a shape that cuDNN has no engine for.
    struct Strides {
        std::int64_t query = 0, key_value = 0;  // elements from token to token; out and gradients of out lie gapless
    };
    void prepare(const AttentionShape&, Strides);

    // Exact bytes of device memory that the calls below use; prepared shapes only.
    Bytes forward_workspace(const AttentionShape&) const;
    Bytes backward_workspace(const AttentionShape&) const;

    void forward(Stream, const AttentionShape&, const AttentionOperands&, const AttentionSaved&, std::byte* workspace);
    void backward(Stream, const AttentionShape&, const AttentionOperands&, const ConstAttentionSaved&,
                  ConstBf16Matrix dout, const AttentionGradients&, std::byte* workspace);

private:
    struct State;
    std::unique_ptr<State> state_;
};

// Name and version of the library, for provenance. Throws EnvironmentError when the library loaded is not of the
// version that this was built with (two versions can be on one machine).
std::string cudnn_description();

}  // namespace sluice::cuda
