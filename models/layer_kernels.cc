#include "models/layer_kernels.h"

#include <algorithm>

namespace sluice {
namespace {

// The sizes that every chain is made of, on one rank.
struct Shape {
    std::int64_t tokens, shard_tokens;                       // of the subsequence; of the rank outside the GEMMs
    std::int64_t keys;                                       // prefix + tokens
    std::int64_t hidden, ffn, qkv, queries_width, kv_width;  // last four: of the rank
    std::int64_t heads, kv_heads, head_dim;                  // of the rank
    std::int64_t element;                                    // bytes
    bool gated;                                              // SwiGLU

    Shape(const Scenario& s, Subsequence sub)
        : tokens(sub.length.value),
          shard_tokens(sub.length.value / s.policy.sp),
          keys(sub.end().value),
          hidden(s.model.hidden),
          ffn(s.model.ffn / s.policy.sp),
          qkv((s.model.heads + 2 * s.model.kv_heads) / s.policy.sp * s.model.head_dim),
          queries_width(s.model.heads / s.policy.sp * s.model.head_dim),
          kv_width(s.model.kv_heads / s.policy.sp * s.model.head_dim),
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
    chain.push_back(pointwise(PointwiseKind::kRope, s.tokens, columns, 2, s.element));
}

KernelChain first_half_of_mlp(const Shape& s) {
    return {gemm(s.tokens, s.gated ? 2 * s.ffn : s.ffn, s.hidden),
            pointwise(PointwiseKind::kActivation, s.tokens, s.ffn, s.gated ? 3 : 2, s.element)};
}

// dK and dV of all keys, produced in the activations' type, added into the accumulators (one read, one write).
Kernel accumulate_kv_gradients(const Scenario& scenario, const Shape& s) {
    const std::int64_t per_element = s.element + 2 * size_of(scenario.precision.kv_gradients).value;
    return {Pointwise{PointwiseKind::kAccumulate, Bytes{s.keys * 2 * s.kv_width * per_element}}, 1};
}

}  // namespace

LayerForward layer_forward(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    LayerForward chains;
    chains.norm1 = {norm(s)};
    chains.attention = {gemm(s.tokens, s.qkv, s.hidden)};
    append_rope(chains.attention, scenario, s, s.queries_width + s.kv_width);
    chains.attention.push_back(attention(s, Pass::kForward));
    chains.attention.push_back(gemm(s.tokens, s.hidden, s.queries_width));
    chains.norm2 = {residual(s), norm(s)};
    chains.mlp = first_half_of_mlp(s);
    chains.mlp.push_back(gemm(s.tokens, s.hidden, s.ffn));
    chains.residual = {residual(s)};
    return chains;
}

LayerBackward layer_backward(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    const std::int64_t first_width = s.gated ? 2 * s.ffn : s.ffn;
    LayerBackward chains;
    chains.mlp_data = {gemm(s.tokens, s.ffn, s.hidden), gemm(s.ffn, s.hidden, s.tokens),
                       pointwise(PointwiseKind::kActivation, s.tokens, s.ffn, s.gated ? 5 : 3, s.element),
                       gemm(s.tokens, s.hidden, first_width)};
    chains.mlp_weight = {gemm(s.hidden, first_width, s.tokens)};
    chains.norm2 = {norm_backward(s)};
    chains.attention_data = {gemm(s.tokens, s.queries_width, s.hidden), gemm(s.queries_width, s.hidden, s.tokens),
                             attention(s, Pass::kBackward), accumulate_kv_gradients(scenario, s)};
    append_rope(chains.attention_data, scenario, s, s.queries_width + s.kv_width);
    chains.attention_data.push_back(gemm(s.tokens, s.hidden, s.qkv));
    chains.attention_weight = {gemm(s.hidden, s.qkv, s.tokens)};
    chains.norm1 = {norm_backward(s)};
    return chains;
}

LayerRecompute layer_recompute(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    LayerRecompute chains;
    chains.norms = {norm(s), norm(s)};
    chains.mlp = first_half_of_mlp(s);
    chains.query = {gemm(s.tokens, s.queries_width, s.hidden)};
    append_rope(chains.query, scenario, s, s.queries_width);
    return chains;
}

HeadKernels head_kernels(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    const std::int64_t vocabulary = (scenario.model.vocabulary + scenario.policy.sp - 1) / scenario.policy.sp;
    HeadKernels chains;
    chains.norm = {norm(s)};
    for (std::int64_t begin = 0; begin < s.tokens; begin += kLogitsChunk.value) {
        const std::int64_t tokens = std::min(kLogitsChunk.value, s.tokens - begin);
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
    return {pointwise(PointwiseKind::kEmbedding, s.tokens, s.hidden, 2, s.element)};
}

KernelChain embedding_backward(const Scenario& scenario, Subsequence sub) {
    const Shape s(scenario, sub);
    const std::int64_t per_element = s.element + 2 * size_of(scenario.precision.gradients).value;
    return {{Pointwise{PointwiseKind::kEmbedding, Bytes{s.tokens * s.hidden * per_element}}, 1}};
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

Bytes boundary_bytes(const Scenario& scenario, Subsequence sub) {
    return size_of(scenario.precision.weights) * (sub.length.value / scenario.policy.sp * scenario.model.hidden);
}

}  // namespace sluice
