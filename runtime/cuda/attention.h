// Causal attention of one subsequence against its prefix, by cuDNN's backend API (docs/cuda.md has the graphs and what
// was measured): runtime/cpu/causal_attention.h on bf16, rows of tokens, [head][head_dim] in a row, rows may lie apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cpu/rotary_table.h"
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
    Bf16Matrix query;       // (length, heads * head_dim): overwritten
    Fp32Matrix key, value;  // (begin + length, kv_heads * head_dim): accumulators
    bool begins = false;    // they are overwritten instead of added to
    // The query's gradient is turned back by RoPE, whose positions are those of the call; nothing: it is left as it is.
    std::optional<RotaryShape> turned_back;
    // false: the gradients of the own keys (rows `begin` on) are not added to the accumulators but left in bf16 where
    // own_gradients() says. For a caller that adds the last ones: one pass less over the sums.
    bool adds_own = true;
};

// Gradients of the subsequence's own keys: (length, kv_heads * head_dim).
struct OwnKeyGradients {
    ConstBf16Matrix key, value;
};

// The plans of one rank. A forward call is cut into stretches of so many queries, each against all keys up to its end:
// faster under load (docs/cuda.md). A backward call is cut into the square of a subsequence's own keys, and its prefix
// unmasked, at most so many keys at a time: a masked tile costs as much as another in cuDNN's backward. Every part
// leaves dQ, dK and dV in bf16 in the workspace; they are summed in fp32, dQ in the pass that rounds it. A prefix is
// cut at the last multiple of 128 keys, where cuDNN's unmasked backward is right for sure; what is left of it goes with
// the square. So every length works, and those of 128 are fast. Where there is one part only, it writes dQ where it
// belongs.
//
// O, LSE, dK and dV repeat bit by bit; dQ does if `deterministic`. One workspace is used by one call at a time.
class AttentionPlans {
public:
    // Keys of one unmasked part. The memory model counts with the same (models/rank_memory.h, kKvGradientChunk).
    static constexpr Tokens kKeysAtOnce{131072};
    // Queries of one stretch of a forward call.
    static constexpr Tokens kQueriesAtOnce{8192};
    // Queries of a tile of the library's forward kernel on Hopper: it has as many blocks as heads times tiles
    // (measured: validation/h200.md).
    static constexpr std::int64_t kForwardTileRows = 128;

    // `deterministic`: dQ repeats bit by bit; needs 2 * heads * queries * keys bytes more of workspace.
    // `keys_at_once`: a multiple of 128; `queries_at_once`: of 4.
    explicit AttentionPlans(bool deterministic = false, Tokens keys_at_once = kKeysAtOnce,
                            Tokens queries_at_once = kQueriesAtOnce);
    ~AttentionPlans();
    AttentionPlans(const AttentionPlans&) = delete;
    AttentionPlans& operator=(const AttentionPlans&) = delete;

    // Elements from token to token, multiples of 8. Rows of out and of its gradient lie gapless.
    struct Strides {
        std::int64_t query = 0, key_value = 0;
        std::int64_t query_gradient = 0;  // 0: gapless
        friend bool operator==(const Strides&, const Strides&) = default;
    };
    // Builds the plans of a shape, once (up to 0.2 s each); a shape has one set of strides. Throws InputError for a
    // shape that cuDNN has no engine for: a head_dim that is no multiple of 8 or above 128, a single query.
    void prepare(const AttentionShape&, Strides);

    // Exact bytes of device memory that the calls below use; prepared shapes only.
    Bytes forward_workspace(const AttentionShape&) const;
    Bytes backward_workspace(const AttentionShape&) const;

    // Operands and workspace begin at multiples of 16 and 256 bytes. Nothing is allocated on the device.
    void forward(Stream, const AttentionShape&, const AttentionOperands&, const AttentionSaved&, std::byte* workspace);
    void backward(Stream, const AttentionShape&, const AttentionOperands&, const ConstAttentionSaved&,
                  ConstBf16Matrix dout, const AttentionGradients&, std::byte* workspace);
    // What backward() leaves where it does not add the own keys' gradients; until the workspace is used again.
    OwnKeyGradients own_gradients(const AttentionShape&, const std::byte* workspace) const;

    // Every plan built, with the library's engine, for provenance.
    std::vector<std::string> choices() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

// Name and version of the library, for provenance. Throws EnvironmentError when the library loaded is not of the
// version that this was built with (two versions can be on one machine).
std::string cudnn_description();

}  // namespace sluice::cuda
