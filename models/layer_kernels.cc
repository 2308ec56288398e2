#include "models/layer_kernels.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// The sizes that every chain is made of, on one rank.
struct Shape {
    std::int64_t tokens;        // of the subsequence: rows of attention
    std::int64_t shard_tokens;  // of the rank: rows outside GEMMs and attention
    std::int64_t gemm_tokens;   // rows of GEMMs: Megatron all, Ulysses the rank's
    std::int64_t keys;          // prefix + tokens
    std::int64_t hidden, ffn;   // ffn and the widths: columns of the rank's weights
    std::int64_t queries_width, kv_width, qkv;
    std::int64_t heads, kv_heads, head_dim;  // of the rank's attention
    std::int64_t element;                    // bytes
    bool gated;                              // SwiGLU

    Shape(const Scenario& s, Subsequence sub)
        : tokens(sub.length.value),
          shard_tokens(sub.length.value / s.policy.sp),
          gemm_tokens(s.ulysses() ? shard_tokens : tokens),
          keys(sub.end().value),
          hidden(s.model.hidden),
          ffn(s.model.ffn / s.weight_shards()),
          queries_width(s.model.heads / s.weight_shards() * s.model.head_dim),
          kv_width(s.model.kv_heads / s.weight_shards() * s.model.head_dim),
          qkv(queries_width + 2 * kv_width),
          heads(s.model.heads / s.policy.sp),
          kv_heads(s.model.kv_heads / s.policy.sp),
          head_dim(s.model.head_dim),
          element(size_of(s.precision.weights).value),
          gated(s.model.activation == ActivationFunction::kSwiglu) {}
};

Kernel gemm(std::int64_t m, std::int64_t n, std::int64_t k) { return {Gemm{m, n, k}, 1}; }

// `rows` x `columns` elements, read and written `passes` times in all.
Kernel pointwise(PointwiseKind kind, std::int64_t rows, std::int64_t columns, std::int64_t passes,
                 std::int64_t element) {
    return {Pointwise{kind, Bytes{rows * columns * passes * element}}, 1};
}

Kernel attention(const Shape& s, Pass pass) {
    return {Attention{pass, true, s.tokens, s.keys, s.heads, s.kv_heads, s.head_dim}, 1};
}

// Norm forward reads and writes the shard; backward reads the gradient and the input, adds into the residual gradient.
Kernel norm(const Shape& s) { return pointwise(PointwiseKind::kNorm, s.shard_tokens, s.hidden, 2, s.element); }
Kernel norm_backward(const Shape& s) { return pointwise(PointwiseKind::kNorm, s.shard_tokens, s.hidden, 4, s.element); }
Kernel residual(const Shape& s) { return pointwise(PointwiseKind::kResidual, s.shard_tokens, s.hidden, 3, s.element); }

// On `columns` values per token: queries, or queries and keys.
void append_rope(KernelChain& chain, const Scenario& scenario, const Shape& s, std::int64_t columns) {
    if (scenario.model.positions != Positions::kRope) return;
    chain.push_back(pointwise(PointwiseKind::kRope, s.gemm_tokens, columns, 2, s.element));
}

Kernel first_mlp_gemm(const Shape& s) { return gemm(s.gemm_tokens, s.gated ? 2 * s.ffn : s.ffn, s.hidden); }
Kernel activation(const Shape& s) {
    return pointwise(PointwiseKind::kActivation, s.gemm_tokens, s.ffn, s.gated ? 3 : 2, s.element);
}
// `again`: writes the activation's output, too.
Kernel activation_backward(const Shape& s, bool again) {
    const std::int64_t passes = s.gated ? 5 : 3;
    return pointwise(PointwiseKind::kActivation, s.gemm_tokens, s.ffn, again ? passes + 1 : passes, s.element);
}

bool is_lean(const Scenario& s) { return s.policy.inventory == Inventory::kLean; }

KernelChain mlp_backward(const Scenario& scenario, const Shape& s) {
    const bool lean = is_lean(scenario);
    KernelChain chain = {gemm(s.gemm_tokens, s.ffn, s.hidden), gemm(s.ffn, s.hidden, s.gemm_tokens),
                         activation_backward(s, lean), gemm(s.gemm_tokens, s.hidden, s.gated ? 2 * s.ffn : s.ffn)};
    if (lean) std::swap(chain[1], chain[2]);
    return chain;
}

// dK and dV of all keys, produced in the activations' type, added into the accumulators (one read, one write).
Kernel accumulate_kv_gradients(const Scenario& scenario, const Shape& s) {
    const std::int64_t per_element = s.element + 2 * size_of(scenario.precision.kv_gradients).value;
    return {Pointwise{PointwiseKind::kAccumulate, Bytes{s.keys * 2 * s.kv_heads * s.head_dim * per_element}}, 1};
}

}  // namespace

LayerForward layer_forward(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    LayerForward chains;
    chains.norm1 = {norm(s)};
    KernelChain& before = scenario.ulysses() ? chains.qkv : chains.attention;
    KernelChain& after = scenario.ulysses() ? chains.projection : chains.attention;
    before = {gemm(s.gemm_tokens, s.qkv, s.hidden)};
    append_rope(before, scenario, s, s.queries_width + s.kv_width);
    chains.attention.push_back(attention(s, Pass::kForward));
    after.push_back(gemm(s.gemm_tokens, s.hidden, s.queries_width));
    chains.norm2 = {residual(s), norm(s)};
    chains.mlp = {first_mlp_gemm(s), activation(s), gemm(s.gemm_tokens, s.hidden, s.ffn)};
    chains.residual = {residual(s)};
    return chains;
}

LayerBackward layer_backward(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    const std::int64_t first_width = s.gated ? 2 * s.ffn : s.ffn, rows = s.gemm_tokens;
    LayerBackward chains;
    chains.mlp_data = mlp_backward(scenario, s);
    chains.mlp_weight = {gemm(s.hidden, first_width, rows)};
    chains.norm2 = {norm_backward(s)};
    const bool ulysses = scenario.ulysses();
    (ulysses ? chains.projection : chains.attention_data).push_back(gemm(rows, s.queries_width, s.hidden));
    (ulysses ? chains.projection_weight : chains.attention_data).push_back(gemm(s.queries_width, s.hidden, rows));
    chains.attention_data.push_back(attention(s, Pass::kBackward));
    chains.attention_data.push_back(accumulate_kv_gradients(scenario, s));
    KernelChain& data = ulysses ? chains.qkv : chains.attention_data;
    append_rope(data, scenario, s, s.queries_width + s.kv_width);
    data.push_back(gemm(rows, s.hidden, s.qkv));
    (ulysses ? chains.qkv : chains.attention_weight).push_back(gemm(s.hidden, s.qkv, rows));
    chains.norm1 = {norm_backward(s)};
    return chains;
}

LayerRecompute layer_recompute(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    LayerRecompute chains;
    chains.norms = {norm(s), norm(s)};
    chains.mlp = {first_mlp_gemm(s)};
    if (!is_lean(scenario)) chains.mlp.push_back(activation(s));
    chains.query = {gemm(s.gemm_tokens, s.queries_width, s.hidden)};
    append_rope(chains.query, scenario, s, s.queries_width);
    if (!scenario.recomputes_layers()) return chains;
    chains.attention = {attention(s, Pass::kForward)};
    (scenario.ulysses() ? chains.projection : chains.attention)
        .push_back(gemm(s.gemm_tokens, s.hidden, s.queries_width));
    chains.residual = {residual(s)};
    return chains;
}

HeadKernels head_kernels(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    const std::int64_t shards = scenario.weight_shards();
    const std::int64_t vocabulary = (scenario.model.vocabulary + shards - 1) / shards;
    HeadKernels chains;
    chains.norm = {norm(s)};
    for (std::int64_t begin = 0; begin < s.gemm_tokens; begin += kLogitsChunk.value) {
        const std::int64_t tokens = std::min(kLogitsChunk.value, s.gemm_tokens - begin);
        chains.loss.push_back(gemm(tokens, vocabulary, s.hidden));
        // fp32 logits: read for the maximum and the sum, read and overwritten by their gradient
        chains.loss.push_back({Pointwise{PointwiseKind::kCrossEntropy, Bytes{tokens * vocabulary * 4 * 3}}, 1});
        chains.loss.push_back(gemm(tokens, s.hidden, vocabulary));
        chains.loss.push_back(gemm(vocabulary, s.hidden, tokens));
    }
    chains.norm_backward = {norm_backward(s)};
    return chains;
}

KernelChain embedding_forward(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    return {pointwise(PointwiseKind::kEmbedding, s.gemm_tokens, s.hidden, 2, s.element)};
}

KernelChain embedding_backward(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    const std::int64_t per_element = s.element + 2 * size_of(scenario.precision.gradients).value;
    return {{Pointwise{PointwiseKind::kEmbedding, Bytes{s.gemm_tokens * s.hidden * per_element}}, 1}};
}

KernelChain gradient_norm(const Scenario& scenario, std::int64_t parameters) {
    return {{Pointwise{PointwiseKind::kOther, size_of(scenario.precision.gradients) * parameters}, 1}};
}

KernelChain adamw(const Scenario& scenario, std::int64_t parameters) {
    // reads gradient, master weight and both moments; writes the last three and the working weight
    const Bytes working = scenario.precision.weights == DataType::kFp32 ? 0_B : size_of(scenario.precision.weights);
    const Bytes per_parameter = size_of(scenario.precision.gradients) + 24_B + working;
    return {{Pointwise{PointwiseKind::kAdamw, per_parameter * parameters}, 1}};
}

Bytes gathered_bytes(const Scenario& scenario, Subsequence sub) {
    return size_of(scenario.precision.weights) * (sub.length.value * scenario.model.hidden);
}

Bytes query_exchange_bytes(const Scenario& scenario, Subsequence sub) {
    const std::int64_t rows = sub.length.value / scenario.policy.sp;
    return size_of(scenario.precision.weights) * (rows * scenario.model.heads * scenario.model.head_dim);
}

Bytes kv_exchange_bytes(const Scenario& scenario, Subsequence sub) {
    const std::int64_t rows = sub.length.value / scenario.policy.sp;
    return size_of(scenario.precision.weights) * (2 * rows * scenario.model.kv_heads * scenario.model.head_dim);
}

Bytes boundary_bytes(const Scenario& scenario, Subsequence sub) {
    return size_of(scenario.precision.weights) * (sub.length.value / scenario.policy.sp * scenario.model.hidden);
}

}  // namespace sluice
