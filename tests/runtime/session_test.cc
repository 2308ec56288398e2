// What a run does beyond its numbers: memory, failures, learning.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "runtime/decoder/cpu_engine.h"
#include "runtime/measured_trace.h"
#include "tests/runtime/training_case.h"
#include "traces/step_summary.h"

namespace sluice {
namespace {

std::string message_of(const std::function<void()>& work) {
    const auto began = std::chrono::steady_clock::now();
    std::string message = "nothing was thrown";
    try {
        work();
    } catch (const std::exception& e) {
        message = e.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20)) << "a run that fails must not hang";
    return message;
}

Scenario four_ranks() { return training_scenario(tiny_architecture(Style::kLlama), 48, 3, 2, 2); }

TEST(SessionFailure, ABadTokenEndsTheRunWithItsPlace) {
    const Scenario s = four_ranks();
    for (const bool target : {false, true}) {
        Session session(s, lowered_schedule(s), cpu_engine());
        session.initialise(1);
        StepTokens tokens = random_tokens(s, 1);
        (target ? tokens.targets : tokens.inputs)[0][21] = 37;
        const std::string message = message_of([&] { session.step(tokens, {}); });
        EXPECT_NE(message.find("bad token id, got 37 at position 21 of sequence 0 of the batch, expected 0 to 36"),
                  std::string::npos)
            << message;
    }
}

TEST(SessionFailure, NamesTheOpThatMakesTheFirstValueThatIsNotFinite) {
    for (const SequenceParallelKind kind : {SequenceParallelKind::kMegatron, SequenceParallelKind::kUlysses}) {
        Scenario s = four_ranks();
        s.policy.sp_kind = kind;
        Session session(s, lowered_schedule(s), cpu_engine());
        session.initialise(1);
        std::vector<WholeParameter> parameters = session.parameters();
        for (WholeParameter& p : parameters)
            if (p.name == "model.layers.2.mlp.up_proj.weight") p.weights[5] = std::numeric_limits<float>::infinity();
        session.set_parameters(parameters);
        const std::string message = message_of([&] { session.step(random_tokens(s, 1), {}); });
        EXPECT_NE(message.find("the first value that is not finite is made by op"), std::string::npos) << message;
        EXPECT_NE(message.find("forward mlp of layer 2, subsequence 0"), std::string::npos) << message;
        EXPECT_NE(message.find("step 1"), std::string::npos) << message;
    }
}

TEST(SessionFailure, RefusesWhatItCannotRun) {
    struct Case {
        std::function<void(Scenario&)> change;
        const char* says;
    };
    const Case cases[] = {
        {[](Scenario& s) { s.policy.granularity = Granularity::kStage; }, "granularity stage"},
        {[](Scenario& s) { s.policy.inventory = Inventory::kPaper; }, "paper's inventory"},
        {[](Scenario& s) { s.precision.weights = DataType::kBf16; }, "bf16"},
        {[](Scenario& s) {
             s.policy.dp = 2, s.batch = 2, s.policy.zero = ZeroStage::kGradients;
             s.cluster.gpus_per_node = 8;
         },
         "ZeRO"},
    };
    for (const Case& c : cases) {
        Scenario s = four_ranks();
        c.change(s);
        const std::string message = message_of([&] { Session session(s, lowered_schedule(s), cpu_engine()); });
        EXPECT_NE(message.find(c.says), std::string::npos) << message;
    }
    Scenario s = four_ranks();
    const Schedule schedule = lowered_schedule(s);
    s.sequence = Tokens{96};
    EXPECT_NE(message_of([&] { Session session(s, schedule, cpu_engine()); }).find("expected the sequence of 96"),
              std::string::npos);
    s = four_ranks();
    s.model.ffn = 48;
    EXPECT_NE(message_of([&] { Session session(s, schedule, cpu_engine()); }).find("weights"), std::string::npos);
}

// ---- Memory

Scenario wide_scenario() {
    Architecture model = tiny_architecture(Style::kLlama);
    model.hidden = 256, model.head_dim = 64, model.ffn = 768, model.vocabulary = 512;
    Scenario s = training_scenario(model, 2048, 4);
    s.policy.placement = OffloadRatio{0.5};
    return s;
}

TEST(SessionMemory, OpsAloneWriteTheWholeArena) {
    const Scenario s = wide_scenario();
    Session session(s, lowered_schedule(s), cpu_engine());
    const Schedule& schedule = session.schedule();
    const RankArenas& arenas = session.engine().arenas(Rank{});
    for (const Space space : {Space::kDevice, Space::kHost}) poison(arenas.arena(space));
    session.initialise(1);
    session.step(random_tokens(s, 1), {});
    const std::span<std::byte> arena = arenas.arena(Space::kDevice);
    ASSERT_GT(arena.size(), 64U << 20);
    // Workspaces are bounds, and two buffers need not touch: everything else has been written.
    std::vector<char> counts(arena.size() / 4, 0);
    for (const Buffer& b : schedule.buffers) {
        if (b.space != Space::kDevice || b.kind == BufferKind::kWorkspace) continue;
        const auto first = static_cast<std::size_t>(b.offset->value / 4),
                   count = static_cast<std::size_t>(b.bytes.value / 4);
        std::fill_n(counts.begin() + static_cast<std::ptrdiff_t>(first), count, 1);
    }
    const std::span<float> values = as_floats(arena.first(arena.size() / 4 * 4));
    std::size_t left = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
        if (counts[i] != 0 && is_poison(values[i])) ++left;
    EXPECT_LT(static_cast<double>(left), 0.01 * static_cast<double>(values.size()));
    const std::span<float> host = as_floats(arenas.arena(Space::kHost));
    EXPECT_EQ(std::count_if(host.begin(), host.end(), is_poison), 0);
}

TEST(SessionMemory, ArenasAreCloseToWhatLives) {
    const Scenario s = wide_scenario();
    Session session(s, lowered_schedule(s), cpu_engine());
    session.initialise(1);
    session.step(random_tokens(s, 1), {});
    const StepSummary summary = summarize_step(measured_trace(session.schedule(), session.engine().times(), {}));
    for (const PoolPeak& peak : summary.device_peaks) {
        EXPECT_EQ(peak.arena.value, static_cast<std::int64_t>(
                                        session.engine().arenas(id_at<Rank>(peak.owner)).arena(Space::kDevice).size()));
        EXPECT_LE(peak.arena / peak.live, 1.05);
    }
    // Beside the arenas: the schedule, code, threads' stacks, OpenBLAS's buffers (one per thread that multiplies).
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)  // these keep memory of their own for every byte
    const MemoryUse use = session.engine().memory();
    EXPECT_LT(use.beyond, 400_MiB);
#endif
}

// What sequence parallelism keeps of a layer's two gathered inputs: all rows, or the rank's own and gathered again. The
// inventory says 2 F (1 - 1/t) per layer, F the bytes of all rows; arenas really mapped differ by that, layer for
// layer.
TEST(SessionMemory, SavingShardsFreesWhatTheInventorySays) {
    const auto arena = [](std::int64_t layers, SavedInputs saved) {
        Architecture model = tiny_architecture(Style::kLlama);
        model.layers = layers, model.hidden = 64, model.head_dim = 16, model.ffn = 96;
        Scenario s = training_scenario(model, 512, 2, 2, 1);
        s.policy.saved_inputs = saved;
        Session session(s, lowered_schedule(s), cpu_engine());
        session.initialise(1);
        session.step(random_tokens(s, 1), {});
        return Bytes{static_cast<std::int64_t>(session.engine().arenas(Rank{}).arena(Space::kDevice).size())};
    };
    const Bytes rows = 4_B * (512 * 64);
    const auto saved = [&](std::int64_t layers) {
        return arena(layers, SavedInputs::kGathered) - arena(layers, SavedInputs::kShard);
    };
    const Bytes two = saved(2), six = saved(6);
    EXPECT_EQ(six - two, rows * 4) << "2 F (1 - 1/2) for each of four layers";
}

// ---- Learning

std::vector<double> losses_on_text(const Scenario& s, int steps) {
    std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/README.md", std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    Session session(s, lowered_schedule(s), cpu_engine());
    session.initialise(5);
    StepSettings settings;
    settings.learning_rate = 3e-3F;
    std::vector<double> losses;
    const auto length = static_cast<std::size_t>(s.sequence.value);
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps); ++k) {
        const std::size_t begin = k * length % (text.size() - length - 1);
        StepTokens tokens;
        tokens.inputs.emplace_back(), tokens.targets.emplace_back();
        for (std::size_t t = 0; t < length; ++t) {
            tokens.inputs[0].push_back(static_cast<unsigned char>(text[begin + t]));
            tokens.targets[0].push_back(static_cast<unsigned char>(text[begin + t + 1]));
        }
        losses.push_back(session.step(std::move(tokens), settings).loss.value());
    }
    return losses;
}

TEST(SessionLearning, FourStagesOffloadedFollowThePlainRunOnText) {
    Architecture model = tiny_architecture(Style::kGpt2);
    model.hidden = 32, model.head_dim = 8, model.ffn = 64, model.vocabulary = 256;
    const std::vector<double> plain = losses_on_text(training_scenario(model, 256), 50);
    Scenario s = training_scenario(model, 256, 5, 1, 4);
    s.policy.placement = OffloadAll{};
    const std::vector<double> cut = losses_on_text(s, 50);
    EXPECT_LT(plain.back(), plain.front() - 1.5) << "it learns";
    for (std::size_t k = 0; k < plain.size(); ++k) EXPECT_NEAR(cut[k], plain[k], 1e-3) << "step " << k + 1;
}

}  // namespace
}  // namespace sluice
