// Parameters, their states and workspaces: by hand for small shapes, and against published counts.
#include "models/rank_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// A model of the shipped architectures on the tiny cluster.
Scenario shipped_model(const std::string& model) {
    return parse_scenario("model: " + model +
                              "\ncluster: tiny\ncalibration: tiny\nsequence: 16 Ki tokens\n"
                              "policy:\n  sp: {kind: megatron, degree: 2}\n  pp: 2\n  n: 8\n",
                          "test", fs::path(SLUICE_SOURCE_DIR) / "scenarios");
}

// Hidden 8, 4 heads of 2, MLP of 32, vocabulary of 100, sequence of 50, learned positions, tied head, biases.
Scenario gpt(std::int64_t sp = 1, std::int64_t pp = 1) {
    Scenario s = small_scenario(sp, pp, 1);
    s.model = {"gpt", 3,   8, 4, 4, 2, 32, 100, ActivationFunction::kGelu, Norm::kLayerNorm, Positions::kLearned,
               true,  true};
    s.sequence = Tokens{50};
    return s;
}

Scenario llama(std::int64_t sp = 1) {
    Scenario s = small_scenario(sp, 1, 1);
    s.model = {"llama",          3,     16,   8, 2, 4, 24, 100, ActivationFunction::kSwiglu, Norm::kRmsNorm,
               Positions::kRope, false, false};
    return s;
}

TEST(RankMemory, LayerByHand) {
    // QKV 8 x 24 and output 8 x 8, MLP 2 x 8 x 32; column-parallel biases 24 and 32. Two norms of 16, row-parallel
    // biases of 8.
    EXPECT_EQ(layer_parameters(gpt()).sharded, 192 + 64 + 512 + 56);
    EXPECT_EQ(layer_parameters(gpt()).replicated, 2 * 16 + 2 * 8);
    // queries 32 wide, K and V 8 each: 16 x 48 and 32 x 16; gate, up and down 16 x 24; two norms of 16
    EXPECT_EQ(layer_parameters(llama()).sharded, 768 + 512 + 3 * 384);
    EXPECT_EQ(layer_parameters(llama()).replicated, 2 * 16);
}

TEST(RankMemory, RanksOfAGroupHoldEveryWeightOnce) {
    for (const std::int64_t sp : {2, 4}) {
        EXPECT_EQ(layer_parameters(gpt(sp)).sharded * sp, layer_parameters(gpt()).sharded);
        EXPECT_EQ(layer_parameters(gpt(sp)).replicated, layer_parameters(gpt()).replicated);
        EXPECT_EQ(embedding_parameters(gpt(sp)).sharded * sp, embedding_parameters(gpt()).sharded);
        EXPECT_EQ(head_parameters(gpt(sp, 2)).sharded * sp, head_parameters(gpt(1, 2)).sharded);
    }
    EXPECT_EQ(layer_parameters(llama(2)).sharded * 2, layer_parameters(llama()).sharded);
}

TEST(RankMemory, WithUlyssesEveryRankHoldsEverything) {
    for (const Scenario& whole : {gpt(1, 2), llama()}) {
        Scenario s = whole;
        s.policy.sp = 2, s.policy.sp_kind = SequenceParallelKind::kUlysses;
        for (const auto& of : {layer_parameters, embedding_parameters, head_parameters}) {
            EXPECT_EQ(of(s).sharded, 0);
            EXPECT_EQ(of(s).replicated, of(whole).total());
        }
        EXPECT_EQ(table_parameters(s), table_parameters(whole));
        EXPECT_EQ(model_parameters(s), model_parameters(whole));
    }
}

TEST(RankMemory, EmbeddingAndHead) {
    EXPECT_EQ(embedding_parameters(gpt()).sharded, 100 * 8);
    EXPECT_EQ(embedding_parameters(gpt()).replicated, 50 * 8) << "learned positions";
    EXPECT_EQ(embedding_parameters(llama()).replicated, 0) << "rotary positions have none";
    EXPECT_EQ(head_parameters(gpt()).total(), 16) << "tied, one stage: the final norm alone";
    EXPECT_EQ(head_parameters(gpt(1, 2)).total(), 16 + 800) << "tied, two stages: the last has a copy";
    EXPECT_EQ(head_parameters(llama()).total(), 16 + 1600);
    EXPECT_EQ(embedding_parameters(gpt(3)).sharded, 34 * 8) << "the vocabulary is padded to the ranks";
}

// Runs end where other ranks hold what follows, and make up their part.
TEST(RankMemory, RunsAreWhatTheSameRanksHold) {
    const auto sizes = [](const ParameterRuns& runs) {
        std::vector<std::pair<std::int64_t, bool>> all;
        for (const ParameterRun& run : runs) all.emplace_back(run.parameters, run.replicated);
        return all;
    };
    using Runs = std::vector<std::pair<std::int64_t, bool>>;
    EXPECT_EQ(sizes(layer_runs(gpt())), (Runs{{824 + 48, false}})) << "one rank holds all of it";
    // norm; QKV, its bias, output; output's bias, norm; MLP and its first bias; the second
    EXPECT_EQ(sizes(layer_runs(gpt(2))), (Runs{{16, true}, {140, false}, {24, true}, {272, false}, {8, true}}));
    EXPECT_EQ(sizes(layer_runs(llama(2))), (Runs{{16, true}, {640, false}, {16, true}, {576, false}}));
    EXPECT_EQ(sizes(embedding_runs(gpt(2))), (Runs{{400, false}, {400, true}}));
    EXPECT_EQ(sizes(head_runs(gpt(2))), (Runs{{16, true}})) << "tied, one stage";
    EXPECT_EQ(sizes(head_runs(gpt(2, 2))), (Runs{{400, false}, {16, true}}));
    Scenario ulysses = gpt(2, 2);
    ulysses.policy.sp_kind = SequenceParallelKind::kUlysses;
    EXPECT_EQ(sizes(layer_runs(ulysses)), (Runs{{872, true}})) << "every rank holds all of it";
    EXPECT_EQ(sizes(head_runs(ulysses)), (Runs{{800, true}, {16, true}}));
}

TEST(RankMemory, SharesOfRunsAreRoundedUpOneByOne) {
    Scenario s = gpt(2);
    s.policy.dp = 3, s.policy.zero = ZeroStage::kOptimizer;
    const Parameters held = held_parameters(s, ZeroStage::kOptimizer, layer_runs(s));
    EXPECT_EQ(held.sharded, 47 + 91);
    EXPECT_EQ(held.replicated, 6 + 8 + 3);
    EXPECT_EQ(held_parameters(s, ZeroStage::kGradients, layer_runs(s)).total(), layer_parameters(s).total());
}

TEST(RankMemory, ModelCountsEveryParameterOnce) {
    const std::int64_t expected = 3 * (824 + 48) + 800 + 400 + 16;
    EXPECT_EQ(model_parameters(gpt()), expected);
    EXPECT_EQ(model_parameters(gpt(2, 2)), expected) << "the degrees do not change the model";
}

// Counted: weights, biases and norms of all layers, token embedding (tied to the head), final norm; rotary positions
// have none.
TEST(RankMemory, PublishedParameterCounts) {
    EXPECT_EQ(model_parameters(shipped_model("gpt-7b")),
              32LL * (12 * 4096 * 4096 + 13 * 4096) + 50304LL * 4096 + 2 * 4096);
    EXPECT_EQ(model_parameters(shipped_model("gpt-7b")), 6'650'208'256);
    EXPECT_EQ(model_parameters(shipped_model("gpt-13b")), 12'843'141'120);
    EXPECT_EQ(model_parameters(shipped_model("gpt-65b")), 64'845'135'872);
    EXPECT_EQ(model_parameters(shipped_model("llama3-8b")), 8'030'261'248) << "as the released checkpoint";
}

// SPPO Table 2 in GB of 10^9: 18 bytes per parameter (2 weight, 4 gradient, 12 optimizer) give 119.7, 231.2 and 1167.2.
TEST(RankMemory, ModelStateOfTableTwo) {
    struct Case {
        const char* model;
        double published_gb, tolerance;
    };
    for (const Case& c : {Case{"gpt-7b", 120, 0.003}, Case{"gpt-13b", 234, 0.013}, Case{"gpt-65b", 1200, 0.028}}) {
        const Scenario s = shipped_model(c.model);
        const std::int64_t count = model_parameters(s);
        const Bytes state = weight_bytes(s, count) + gradient_bytes(s, count) + optimizer_bytes(s, count);
        EXPECT_EQ(state.value, 18 * count) << c.model;
        EXPECT_NEAR(static_cast<double>(state.value) / 1e9 / c.published_gb, 1, c.tolerance) << c.model;
    }
}

TEST(RankMemory, StatesFollowThePrecision) {
    Scenario s = gpt();
    EXPECT_EQ(weight_bytes(s, 10), 20_B);
    EXPECT_EQ(gradient_bytes(s, 10), 40_B);
    EXPECT_EQ(optimizer_bytes(s, 10), 120_B);
    s.precision.weights = DataType::kFp32, s.precision.gradients = DataType::kBf16;
    EXPECT_EQ(weight_bytes(s, 10), 40_B);
    EXPECT_EQ(gradient_bytes(s, 10), 20_B);
    EXPECT_EQ(optimizer_bytes(s, 10), 80_B) << "weights in fp32 are their own master copy";
}

// The calibration's bounds: GEMMs 1 MiB, attention 4 B forward and 136 B backward per head and query.
TEST(RankMemory, WorkspacesByHand) {
    const Subsequence sub{Tokens{200}, Tokens{100}};
    EXPECT_EQ(forward_workspace(gpt(), sub), 1_MiB + Bytes{4 * 4 * 100});
    // attention: gradients of output and query, 2 B x 2 x 100 x 8; dK and dV of 300 keys, 2 B x 2 x 300 x 8; those of
    // the own 100 keys rounded from fp32, 2 B x 2 x 100 x 8; the library's
    EXPECT_EQ(backward_workspace(gpt(), sub), 1_MiB + Bytes{3200 + 9600 + 3200 + 136 * 4 * 100});
    EXPECT_EQ(backward_workspace(gpt(2), sub), 1_MiB + Bytes{(3200 + 9600 + 3200 + 136 * 4 * 100) / 2});

    Scenario grouped = gpt();
    grouped.model.kv_heads = 2;  // of 4, and a library that makes dK and dV of every head first
    grouped.calibration.grouped_backward_workspace = 8;
    EXPECT_EQ(backward_workspace(grouped, sub), 1_MiB + Bytes{3200 + 4800 + 1600 + 136 * 4 * 100 + 8 * 4 * 300});
    grouped.precision.kv_gradients = DataType::kBf16;  // nothing to round
    EXPECT_EQ(backward_workspace(grouped, sub), 1_MiB + Bytes{3200 + 4800 + 136 * 4 * 100 + 8 * 4 * 300});

    Scenario wide = gpt();
    wide.model.ffn =
        4096;  // now the MLP needs more: gradients of the activation's output and input, 2 B x 100 x 4096 each
    EXPECT_EQ(backward_workspace(wide, sub), 1_MiB + Bytes{2 * 2 * 100 * 4096});
    wide.model.activation = ActivationFunction::kSwiglu;  // the input is gate and up
    EXPECT_EQ(backward_workspace(wide, sub), 1_MiB + Bytes{3 * 2 * 100 * 4096});
}

// Over two ranks: what Megatron splits by columns is split by rows, and the gradients of attention's output and of the
// query are among what is exchanged. Logits of half the tokens and the whole vocabulary.
TEST(RankMemory, WorkspacesWithUlysses) {
    const Subsequence sub{Tokens{200}, Tokens{100}};
    Scenario s = gpt(2);
    s.policy.sp_kind = SequenceParallelKind::kUlysses;
    EXPECT_EQ(forward_workspace(s, sub), forward_workspace(gpt(2), sub));
    EXPECT_EQ(backward_workspace(s, sub), 1_MiB + Bytes{(9600 + 136 * 4 * 100) / 2});
    s.model.ffn = 4096;
    EXPECT_EQ(backward_workspace(s, sub), 1_MiB + Bytes{2 * 2 * 50 * 4096});
    EXPECT_EQ(loss_workspace(s, sub), 1_MiB + Bytes{4 * 50 * 100});
}

TEST(RankMemory, KvGradientsOfLongPrefixesComeInChunks) {
    const auto at = [](std::int64_t begin) { return backward_workspace(gpt(), {Tokens{begin}, Tokens{100}}); };
    const std::int64_t chunk = kKvGradientChunk.value;
    EXPECT_LT(at(chunk - 200), at(chunk - 100));
    EXPECT_EQ(at(chunk - 100), at(chunk));
    EXPECT_EQ(at(chunk), at(100 * chunk)) << "bounded, however long the sequence";
}

TEST(RankMemory, LogitsAreBoundedByAChunk) {
    EXPECT_EQ(loss_workspace(gpt(), {Tokens{0}, Tokens{10}}), 1_MiB + Bytes{4 * 10 * 100});
    const Bytes chunk = loss_workspace(gpt(), {Tokens{0}, kLogitsChunk});
    EXPECT_EQ(chunk, 1_MiB + Bytes{4 * 8192 * 100});
    EXPECT_EQ(loss_workspace(gpt(), {Tokens{0}, Tokens{4 * 1024 * 1024}}), chunk);
    // GPT-7B over 8 ranks, 50,304 words: 6,288 columns of fp32
    Scenario s = shipped_model("gpt-7b");
    s.policy.sp = 8;
    EXPECT_EQ(loss_workspace(s, {Tokens{0}, Tokens{16384}}) - s.calibration.gemm_workspace, Bytes{4LL * 8192 * 6288});
}

}  // namespace
}  // namespace sluice
