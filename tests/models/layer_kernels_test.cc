// What one layer is made of, written out by hand for two small shapes. Read the tables against models/layer_kernels.h.
#include "models/layer_kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "models/kernel_cost.h"
#include "models/model_flops.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

std::string text(const Kernel& kernel) {
    std::string shape;
    if (const auto* g = std::get_if<Gemm>(&kernel.shape)) shape = fmt::format("gemm {} {} {}", g->m, g->n, g->k);
    if (const auto* a = std::get_if<Attention>(&kernel.shape))
        shape = fmt::format("attention {} {}q {}k {}h {}kv {}d{}", name(a->pass), a->queries, a->keys, a->heads,
                            a->kv_heads, a->head_dim, a->causal ? "" : " full");
    if (const auto* p = std::get_if<Pointwise>(&kernel.shape))
        shape = fmt::format("{} {}", name(p->kind), p->traffic.value);
    return kernel.count == 1 ? shape : fmt::format("{} x{}", shape, kernel.count);
}

std::vector<std::string> text(const KernelChain& chain) {
    std::vector<std::string> lines;
    for (const Kernel& kernel : chain) lines.push_back(text(kernel));
    return lines;
}

using Lines = std::vector<std::string>;

// GPT: hidden 8, 4 heads of 2, MLP of 32, over 2 ranks: per rank 2 heads, QKV 12 wide, MLP 16 wide. Four tokens after
// six: 4 x 10 keys; 2 tokens per rank outside the GEMMs. bf16; a row of the shard is 2 x 8 x 2 B = 32 B.
Scenario gpt() {
    Scenario s = small_scenario(2, 1, 1);
    s.model = {"gpt", 1,   8, 4, 4, 2, 32, 64, ActivationFunction::kGelu, Norm::kLayerNorm, Positions::kLearned,
               true,  true};
    return s;
}
constexpr Subsequence kFourAfterSix{Tokens{6}, Tokens{4}};

TEST(LayerKernels, GptForward) {
    const LayerForward f = layer_forward(gpt(), kFourAfterSix);
    EXPECT_EQ(text(f.norm1), (Lines{"norm 64"}));  // reads and writes the shard
    EXPECT_EQ(text(f.attention), (Lines{"gemm 4 12 8", "attention forward 4q 10k 2h 2kv 2d", "gemm 4 8 4"}));
    EXPECT_EQ(text(f.norm2), (Lines{"residual 96", "norm 64"}));                      // two read, one written
    EXPECT_EQ(text(f.mlp), (Lines{"gemm 4 16 8", "activation 256", "gemm 4 8 16"}));  // 4 x 16 x 2 B, in and out
    EXPECT_EQ(text(f.residual), (Lines{"residual 96"}));
}

TEST(LayerKernels, GptBackward) {
    const LayerBackward b = layer_backward(gpt(), kFourAfterSix);
    EXPECT_EQ(text(b.mlp_data), (Lines{"gemm 4 16 8", "gemm 16 8 4", "activation 384",
                                       "gemm 4 8 16"}));  // the activation: two read, one written
    EXPECT_EQ(text(b.mlp_weight), (Lines{"gemm 8 16 4"}));
    EXPECT_EQ(text(b.norm2), (Lines{"norm 128"}));  // gradient, input and residual gradient in, residual gradient out
    // dK and dV of ten keys, 2 heads of 2: 80 elements; bf16 read, fp32 accumulator read and written: 10 B each
    EXPECT_EQ(text(b.attention_data), (Lines{"gemm 4 4 8", "gemm 4 8 4", "attention backward 4q 10k 2h 2kv 2d",
                                             "accumulate 800", "gemm 4 8 12"}));
    EXPECT_EQ(text(b.attention_weight), (Lines{"gemm 8 12 4"}));
    EXPECT_EQ(text(b.norm1), (Lines{"norm 128"}));
}

// The same with Ulysses: two rows of the rank's tokens and all weights, 24 columns of QKV, 32 of the MLP; in attention
// four tokens and two heads.
Scenario exchanging(Scenario s) {
    s.policy.sp_kind = SequenceParallelKind::kUlysses;
    return s;
}

TEST(LayerKernels, GptForwardWithUlysses) {
    const LayerForward f = layer_forward(exchanging(gpt()), kFourAfterSix);
    EXPECT_EQ(text(f.norm1), (Lines{"norm 64"}));
    EXPECT_EQ(text(f.qkv), (Lines{"gemm 2 24 8"}));
    EXPECT_EQ(text(f.attention), (Lines{"attention forward 4q 10k 2h 2kv 2d"}));
    EXPECT_EQ(text(f.projection), (Lines{"gemm 2 8 8"}));
    EXPECT_EQ(text(f.norm2), (Lines{"residual 96", "norm 64"}));
    EXPECT_EQ(text(f.mlp), (Lines{"gemm 2 32 8", "activation 256", "gemm 2 8 32"}));
    EXPECT_EQ(text(f.residual), (Lines{"residual 96"}));
}

TEST(LayerKernels, GptBackwardWithUlysses) {
    const LayerBackward b = layer_backward(exchanging(gpt()), kFourAfterSix);
    EXPECT_EQ(text(b.mlp_data), (Lines{"gemm 2 32 8", "gemm 32 8 2", "activation 384", "gemm 2 8 32"}));
    EXPECT_EQ(text(b.mlp_weight), (Lines{"gemm 8 32 2"}));
    EXPECT_EQ(text(b.projection), (Lines{"gemm 2 8 8"}));
    EXPECT_EQ(text(b.projection_weight), (Lines{"gemm 8 8 2"}));
    EXPECT_EQ(text(b.attention_data), (Lines{"attention backward 4q 10k 2h 2kv 2d", "accumulate 800"}));
    EXPECT_EQ(text(b.attention_weight), Lines{});
    EXPECT_EQ(text(b.qkv), (Lines{"gemm 2 8 24", "gemm 8 24 2"}));
}

// Every rank has the whole vocabulary for its half of the tokens.
TEST(LayerKernels, HeadEmbeddingAndExchangesWithUlysses) {
    const Scenario s = exchanging(gpt());
    EXPECT_EQ(text(head_kernels(s, {Tokens{0}, Tokens{20000}}).loss),
              (Lines{"gemm 8192 64 8", "cross_entropy 6291456", "gemm 8192 8 64", "gemm 64 8 8192", "gemm 1808 64 8",
                     "cross_entropy 1388544", "gemm 1808 8 64", "gemm 64 8 1808"}));
    EXPECT_EQ(text(embedding_forward(s, kFourAfterSix)), (Lines{"embedding 64"}));    // 2 x 8 x 2 B, in and out
    EXPECT_EQ(text(embedding_backward(s, kFourAfterSix)), (Lines{"embedding 160"}));  // 2 x 8 x (2 + 4 + 4)
    EXPECT_EQ(query_exchange_bytes(s, kFourAfterSix), 32_B);                          // 2 x 8 x 2
    EXPECT_EQ(kv_exchange_bytes(s, kFourAfterSix), 64_B);
    EXPECT_EQ(boundary_bytes(s, kFourAfterSix), 32_B);
}

// Grouped queries, SwiGLU, rotary positions: hidden 16, 8 heads of 4 over 2 K/V heads, MLP of 24. Per rank 4 heads and
// one K/V head: queries 16 wide, K and V 4 each, QKV 24; gate and up 12 + 12.
Scenario llama() {
    Scenario s = small_scenario(2, 1, 1);
    s.model = {"llama",          1,     16,   8, 2, 4, 24, 64, ActivationFunction::kSwiglu, Norm::kRmsNorm,
               Positions::kRope, false, false};
    return s;
}

TEST(LayerKernels, SwigluAndGroupedQueriesForward) {
    const LayerForward f = layer_forward(llama(), {Tokens{0}, Tokens{6}});
    EXPECT_EQ(text(f.norm1), (Lines{"norm 192"}));  // 3 tokens x 16 x 2 B, twice
    // rope: queries and keys of all six tokens, 6 x (16 + 4) x 2 B, in and out
    EXPECT_EQ(text(f.attention),
              (Lines{"gemm 6 24 16", "rope 480", "attention forward 6q 6k 4h 1kv 4d", "gemm 6 16 16"}));
    EXPECT_EQ(text(f.mlp),
              (Lines{"gemm 6 24 16", "activation 432", "gemm 6 16 12"}));  // gate and up in, 6 x 12 x 2 B each
}

TEST(LayerKernels, SwigluAndGroupedQueriesWithUlysses) {
    const LayerForward f = layer_forward(exchanging(llama()), {Tokens{0}, Tokens{6}});
    EXPECT_EQ(text(f.qkv), (Lines{"gemm 3 48 16", "rope 480"}));  // 3 x (32 + 8) x 2 B, in and out
    EXPECT_EQ(text(f.attention), (Lines{"attention forward 6q 6k 4h 1kv 4d"}));
    EXPECT_EQ(text(f.projection), (Lines{"gemm 3 16 32"}));
    EXPECT_EQ(text(f.mlp), (Lines{"gemm 3 48 16", "activation 432", "gemm 3 16 24"}));
    const LayerBackward b = layer_backward(exchanging(llama()), {Tokens{0}, Tokens{6}});
    EXPECT_EQ(text(b.qkv), (Lines{"rope 480", "gemm 3 16 48", "gemm 16 48 3"}));
    EXPECT_EQ(text(layer_recompute(exchanging(llama()), {Tokens{0}, Tokens{6}}).query),
              (Lines{"gemm 3 32 16", "rope 384"}));
}

// Queries alone: K and V are there.
TEST(LayerKernels, RecomputedLayers) {
    const Subsequence sub{Tokens{6}, Tokens{4}};
    const LayerRecompute cheap = layer_recompute(llama(), sub);
    EXPECT_TRUE(cheap.attention.empty() && cheap.projection.empty() && cheap.residual.empty());
    Scenario s = llama();
    s.policy.recompute = RecomputeScope::kLayer;
    const LayerRecompute whole = layer_recompute(s, sub);
    EXPECT_EQ(text(whole.query), (Lines{"gemm 4 16 16", "rope 256"}));
    EXPECT_EQ(text(whole.attention), (Lines{"attention forward 4q 10k 4h 1kv 4d", "gemm 4 16 16"}));
    EXPECT_EQ(text(whole.residual), (Lines{"residual 192"}));  // 2 tokens x 16 x 2 B, three times
    EXPECT_EQ(text(whole.mlp), text(cheap.mlp));
    const LayerRecompute exchanged = layer_recompute(exchanging(s), sub);
    EXPECT_EQ(text(exchanged.attention), (Lines{"attention forward 4q 10k 4h 1kv 4d"}));
    EXPECT_EQ(text(exchanged.projection), (Lines{"gemm 2 16 32"}));
}

// The activation's output, made again where its gradient is: written once more, and before the product that reads it.
TEST(LayerKernels, LeanMakesTheActivationAgainInBackward) {
    const Subsequence sub{Tokens{0}, Tokens{6}};
    Scenario swiglu = llama(), gelu = gpt();
    swiglu.policy.inventory = gelu.policy.inventory = Inventory::kLean;
    EXPECT_EQ(text(layer_backward(swiglu, sub).mlp_data),
              (Lines{"gemm 6 12 16", "activation 864", "gemm 12 16 6", "gemm 6 16 24"}));
    EXPECT_EQ(text(layer_backward(gelu, {Tokens{0}, Tokens{4}}).mlp_data),
              (Lines{"gemm 4 16 8", "activation 512", "gemm 16 8 4", "gemm 4 8 16"}));
    EXPECT_EQ(text(layer_recompute(swiglu, sub).mlp), (Lines{"gemm 6 24 16"}));
    EXPECT_EQ(text(layer_forward(swiglu, sub).mlp), text(layer_forward(llama(), sub).mlp));
}

TEST(LayerKernels, SwigluAndGroupedQueriesBackward) {
    const LayerBackward b = layer_backward(llama(), {Tokens{0}, Tokens{6}});
    // activation: gate, up and the gradient in, two gradients out
    EXPECT_EQ(text(b.mlp_data), (Lines{"gemm 6 12 16", "gemm 12 16 6", "activation 720", "gemm 6 16 24"}));
    EXPECT_EQ(text(b.mlp_weight), (Lines{"gemm 16 24 6"}));
    EXPECT_EQ(text(b.attention_data), (Lines{"gemm 6 16 16", "gemm 16 16 6", "attention backward 6q 6k 4h 1kv 4d",
                                             "accumulate 480", "rope 480", "gemm 6 16 24"}));
    EXPECT_EQ(text(b.attention_weight), (Lines{"gemm 16 24 6"}));
}

TEST(LayerKernels, GradientPrecisionDecidesWhatAccumulationMoves) {
    Scenario s = gpt();
    s.precision.kv_gradients = DataType::kBf16;  // 2 read, 2 read, 2 written
    EXPECT_EQ(text(layer_backward(s, kFourAfterSix).attention_data)[3], "accumulate 480");
    s.precision.gradients = DataType::kFp32;
    EXPECT_EQ(text(embedding_backward(s, kFourAfterSix)), (Lines{"embedding 320"}));  // 4 x 8 x (2 + 4 + 4)
    s.precision.gradients = DataType::kBf16;
    EXPECT_EQ(text(embedding_backward(s, kFourAfterSix)), (Lines{"embedding 192"}));
}

// Logits of at most 8192 tokens at a time: 20000 = 2 x 8192 + 3616. 64 words over 2 ranks.
TEST(LayerKernels, HeadWorksAChunkOfTokensAtATime) {
    const HeadKernels head = head_kernels(gpt(), {Tokens{0}, Tokens{20000}});
    EXPECT_EQ(text(head.norm), (Lines{"norm 320000"}));
    EXPECT_EQ(text(head.loss),
              (Lines{"gemm 8192 32 8", "cross_entropy 3145728", "gemm 8192 8 32", "gemm 32 8 8192",
                     "gemm 8192 32 8", "cross_entropy 3145728", "gemm 8192 8 32", "gemm 32 8 8192",
                     "gemm 3616 32 8", "cross_entropy 1388544", "gemm 3616 8 32", "gemm 32 8 3616"}));
    EXPECT_EQ(text(head.norm_backward), (Lines{"norm 640000"}));
    EXPECT_EQ(head_kernels(gpt(), {Tokens{0}, Tokens{8192}}).loss.size(), 4U) << "no empty tail";
}

TEST(LayerKernels, VocabularyIsPaddedToTheRanks) {
    Scenario s = gpt();
    s.model.vocabulary = 63;
    EXPECT_EQ(text(head_kernels(s, kFourAfterSix).loss.front()), "gemm 4 32 8");
}

TEST(LayerKernels, OptimizerMovesEveryState) {
    // gradient 4, master and two moments 12 in and 12 out, working weight 2 out
    EXPECT_EQ(text(adamw(gpt(), 100)), (Lines{"adamw 3000"}));
    EXPECT_EQ(text(gradient_norm(gpt(), 100)), (Lines{"other 400"}));
}

TEST(LayerKernels, TransfersOfASubsequence) {
    EXPECT_EQ(gathered_bytes(gpt(), kFourAfterSix), 64_B);  // 4 x 8 x 2
    EXPECT_EQ(boundary_bytes(gpt(), kFourAfterSix), 32_B);  // half of it per rank
}

double sum_flops(const std::vector<KernelChain>& chains) {
    double sum = 0;
    for (const KernelChain& chain : chains)
        for (const Kernel& kernel : chain) sum += flops(kernel.shape).value * kernel.count;
    return sum;
}

double forward_flops(const LayerForward& f) {
    return sum_flops({f.norm1, f.qkv, f.attention, f.projection, f.norm2, f.mlp, f.residual});
}
double backward_flops(const LayerBackward& b) {
    return sum_flops({b.mlp_data, b.mlp_weight, b.norm2, b.projection, b.projection_weight, b.attention_data,
                      b.attention_weight, b.qkv, b.norm1});
}

// The kernels do exactly the model's FLOPs: forward all of them over the ranks of a group; backward twice the GEMMs
// and 2.5 times the attention, because FlashAttention computes the scores again.
TEST(LayerKernels, KernelsDoTheFlopsOfTheModel) {
    for (Scenario s : {gpt(), llama(), exchanging(gpt()), exchanging(llama())}) {
        for (const std::int64_t sp : {1, 2}) {
            s.policy.sp = sp;
            const auto ranks = static_cast<double>(sp);
            const double forward = forward_flops(layer_forward(s, kFourAfterSix)) * ranks;
            EXPECT_DOUBLE_EQ(forward, layer_forward_flops(s, kFourAfterSix, CausalCount::kExact).value) << s.model.name;
            const Attention whole{Pass::kForward, true, 4, 10, s.model.heads, s.model.kv_heads, s.model.head_dim};
            const double attention = flops(whole).value;
            EXPECT_DOUBLE_EQ(backward_flops(layer_backward(s, kFourAfterSix)) * ranks,
                             2 * (forward - attention) + 2.5 * attention)
                << s.model.name;
        }
    }
}

TEST(LayerKernels, MoreRanksSplitTheWorkEvenly) {
    Scenario s = gpt();
    const double two = forward_flops(layer_forward(s, kFourAfterSix));
    s.policy.sp = 4;
    EXPECT_DOUBLE_EQ(forward_flops(layer_forward(s, kFourAfterSix)), two / 2);
}

}  // namespace
}  // namespace sluice
