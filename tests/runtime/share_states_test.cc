// ZeRO 1: replicas step shares of the parameters. Who steps what, and runs against those in which every replica steps
// everything.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/decoder/cpu_engine.h"
#include "runtime/local_ranks.h"
#include "tests/runtime/same_bits.h"
#include "tests/runtime/training_case.h"

namespace sluice {
namespace {

struct Cut {
    Style style;
    std::int64_t sp, pp, dp;
    SequenceParallelKind kind = SequenceParallelKind::kMegatron;
};

// Everything small: styles (untied and tied tables, biases), degrees, even shares and odd ones (dp 3).
std::vector<Cut> all_cuts() {
    std::vector<Cut> cuts;
    for (const Style style : {Style::kLlama, Style::kGpt2, Style::kNeox})
        for (const std::int64_t pp : {1, 2})
            for (const std::int64_t dp : {2, 3, 4}) {
                for (const std::int64_t sp : {1, 2}) cuts.push_back({style, sp, pp, dp});
                cuts.push_back({style, 2, pp, dp, SequenceParallelKind::kUlysses});
            }
    return cuts;
}

std::string name_of(const Cut& c) {
    return "style " + std::to_string(static_cast<int>(c.style)) + ", sp " + std::to_string(c.sp) +
           (c.kind == SequenceParallelKind::kUlysses ? " (ulysses)" : "") + ", pp " + std::to_string(c.pp) + ", dp " +
           std::to_string(c.dp);
}

Scenario scenario_of(const Cut& c, ZeroStage zero = ZeroStage::kOptimizer) {
    Scenario s = training_scenario(tiny_architecture(c.style), 16, 2, c.sp, c.pp, c.dp);
    s.policy.sp_kind = c.kind, s.policy.zero = zero;
    return s;
}

// ---- Who steps what

struct Layouts {
    Scenario scenario;
    Schedule schedule;
    RunShape shape;
    std::vector<ParameterLayout> of_rank;

    explicit Layouts(const Cut& c)
        : scenario(scenario_of(c)),
          schedule(lowered_schedule(scenario)),
          shape(read_run_shape(scenario, schedule, all_ranks(schedule))) {
        for (const Rank rank : all_ranks(schedule)) of_rank.push_back(parameter_layout(scenario, shape, rank));
    }
    Rank rank_of(std::int64_t stage, std::int64_t replica, std::int64_t shard) const {
        return id_at<Rank>(static_cast<std::size_t>((stage * shape.replicas + replica) * shape.shards + shard));
    }
};

using Stretch = std::pair<std::int64_t, std::int64_t>;
Stretch stepped(const ParameterSlice& s) { return {s.first_stepped, s.stepped}; }

TEST(ShareStates, ReplicasStepEveryElementOnce) {
    for (const Cut& c : all_cuts()) {
        SCOPED_TRACE(name_of(c));
        const Layouts layouts(c);
        for (std::int64_t stage = 0; stage < c.pp; ++stage)
            for (std::int64_t shard = 0; shard < c.sp; ++shard) {
                const ParameterLayout& first = layouts.of_rank[index(layouts.rank_of(stage, 0, shard))];
                for (std::size_t k = 0; k < first.slices.size(); ++k) {
                    std::int64_t end = 0;
                    for (std::int64_t replica = 0; replica < c.dp; ++replica) {
                        const ParameterLayout& of = layouts.of_rank[index(layouts.rank_of(stage, replica, shard))];
                        const ParameterSlice& slice = of.slices[k];
                        if (slice.stepped == 0) continue;
                        EXPECT_EQ(slice.first_stepped, end) << slice.name << ", replica " << replica;
                        end += slice.stepped;
                    }
                    EXPECT_EQ(end, first.slices[k].held()) << first.slices[k].name;
                }
            }
    }
}

// The states of a rank lie apart from each other in arrays that the schedule has room for, to the byte.
TEST(ShareStates, StatesFillTheBufferOfTheSchedule) {
    for (const Cut& c : all_cuts()) {
        SCOPED_TRACE(name_of(c));
        const Layouts layouts(c);
        std::map<Rank, Bytes> optimizer;
        for (const Buffer& b : layouts.schedule.buffers)
            if (b.kind == BufferKind::kOptimizer) optimizer[b.rank] += b.bytes;
        for (const Rank rank : all_ranks(layouts.schedule)) {
            const ParameterLayout& layout = layouts.of_rank[index(rank)];
            EXPECT_EQ(optimizer[rank], Bytes{8 * layout.state_elements});
            EXPECT_LT(layout.state_elements, layout.elements / c.dp + static_cast<std::int64_t>(layout.shared.size()));
            std::vector<Stretch> states;
            for (const ParameterSlice& s : layout.slices)
                if (s.stepped > 0) states.emplace_back(s.state, s.state + s.stepped);
            for (std::size_t k = 0; k + 1 < states.size(); ++k) EXPECT_LE(states[k].second, states[k + 1].first);
            EXPECT_LE(states.back().second, layout.state_elements);
        }
    }
}

// Ranks that hold a parameter together step the same of it: their sums of its gradient are of the same elements.
TEST(ShareStates, HoldersOfAParameterStepTheSameOfIt) {
    for (const Cut& c : all_cuts()) {
        SCOPED_TRACE(name_of(c));
        const Layouts layouts(c);
        for (std::int64_t replica = 0; replica < c.dp; ++replica) {
            for (std::int64_t stage = 0; stage < c.pp; ++stage)
                for (std::int64_t shard = 1; shard < c.sp; ++shard) {
                    const ParameterLayout& a = layouts.of_rank[index(layouts.rank_of(stage, replica, 0))];
                    const ParameterLayout& b = layouts.of_rank[index(layouts.rank_of(stage, replica, shard))];
                    for (std::size_t k = 0; k < a.slices.size(); ++k)
                        if (a.slices[k].replicated) {
                            EXPECT_EQ(stepped(a.slices[k]), stepped(b.slices[k])) << a.slices[k].name;
                        }
                }
            if (c.style != Style::kGpt2 || c.pp == 1) continue;
            for (std::int64_t shard = 0; shard < c.sp; ++shard) {
                const auto table = [&](std::int64_t stage) {
                    const auto& slices = layouts.of_rank[index(layouts.rank_of(stage, replica, shard))].slices;
                    return stepped(*std::ranges::find(slices, true, &ParameterSlice::table));
                };
                EXPECT_EQ(table(0), table(c.pp - 1));
            }
        }
    }
}

// ---- Runs

struct TrainedRun {
    std::vector<double> losses, norms;
    std::vector<WholeParameter> gradients, parameters;
};

// Clipping binds in every step.
constexpr double kClip = 0.05;

TrainedRun run_of(const Scenario& s, int steps, const CpuOptions& options = {}) {
    Session session(s, lowered_schedule(s), cpu_engine(options));
    session.initialise(3);
    StepSettings settings;
    settings.learning_rate = 1e-2F, settings.clip = kClip;
    TrainedRun run;
    for (int k = 0; k < steps; ++k) {
        const StepReport report = session.step(random_tokens(s, static_cast<std::uint32_t>(k)), settings);
        run.losses.push_back(report.loss.value()), run.norms.push_back(report.gradient_norm);
    }
    run.gradients = session.gradients(), run.parameters = session.parameters();
    return run;
}

// Gradients are summed in the same order, element by element, and AdamW works element by element. Only the norm is
// added up in another order, in double: 1e-16 or so of it, which the scale of clipping, a float, does not see but by a
// chance of 1e-8.
TEST(ShareStates, TenStepsHaveTheBitsOfReplicasThatStepEverything) {
    for (const Cut& c : all_cuts()) {
        const bool widest = c.style == Style::kGpt2;  // a tied table, biases, positions that all shards hold
        const std::int64_t ranks = c.sp * c.pp * c.dp;
        if (!widest && (c.dp != 3 || ranks > 6)) continue;
        SCOPED_TRACE(name_of(c));
        const int steps = widest && ranks <= 8 ? 10 : 2;
        const TrainedRun whole = run_of(scenario_of(c, ZeroStage::kNone), steps);
        const TrainedRun shared = run_of(scenario_of(c), steps);
        EXPECT_EQ(shared.losses, whole.losses);
        expect_same_bits(shared.gradients, whole.gradients);
        expect_same_bits(shared.parameters, whole.parameters);
        for (std::size_t k = 0; k < whole.norms.size(); ++k) {
            EXPECT_GT(whole.norms[k], kClip);
            EXPECT_NEAR(shared.norms[k], whole.norms[k], 1e-13 * whole.norms[k]);
        }
        if (testing::Test::HasFailure()) return;
    }
}

// All replicas have the same weights after a step: what they know of each other's has arrived.
TEST(ShareStates, WeightsOfAllReplicasAreTheSame) {
    for (const Cut& c : {Cut{Style::kGpt2, 2, 2, 3}, Cut{Style::kLlama, 1, 1, 4}}) {
        const Scenario s = scenario_of(c);
        Session session(s, lowered_schedule(s), cpu_engine());
        session.initialise(3);
        session.step(random_tokens(s, 1), {1e-2F});
        const auto weights = [&](Rank rank) {
            for (const Buffer& b : session.schedule().buffers)
                if (b.rank == rank && b.kind == BufferKind::kWeights)
                    return as_floats(session.engine().arenas(rank).span_of(b.id));
            return std::span<float>{};
        };
        for (std::int64_t other = 1; other < c.dp; ++other)
            EXPECT_TRUE(
                std::ranges::equal(weights(Rank{}), weights(id_at<Rank>(static_cast<std::size_t>(other * c.sp)))));
    }
}

TEST(ShareStates, DisturbancesChangeNoBit) {
    for (const PlacementPolicy& placement : {PlacementPolicy{OffloadAll{}}, PlacementPolicy{RecomputeAll{}}}) {
        Scenario s = scenario_of({Style::kGpt2, 2, 2, 2});
        const TrainedRun kept = run_of(s, 5);
        s.policy.placement = placement;
        CpuOptions options;
        options.poison_on_release = true;
        options.delay_copies = CopyDelays{7, Seconds{1e-4}};
        const TrainedRun disturbed = run_of(s, 5, options);
        EXPECT_EQ(disturbed.losses, kept.losses);
        expect_same_bits(disturbed.parameters, kept.parameters);
    }
}

// Whole tensors go from any plan to any other.
TEST(ShareStates, StatesMoveBetweenPlans) {
    const Scenario from = scenario_of({Style::kGpt2, 2, 1, 3});
    Session first(from, lowered_schedule(from), cpu_engine());
    first.initialise(3);
    for (std::uint32_t k = 0; k < 3; ++k) first.step(random_tokens(from, k), {1e-2F});
    const std::vector<WholeParameter> states = first.parameters();
    for (const ZeroStage zero : {ZeroStage::kNone, ZeroStage::kOptimizer})
        for (const Cut& c : {Cut{Style::kGpt2, 1, 2, 2}, Cut{Style::kGpt2, 2, 1, 4}, Cut{Style::kGpt2, 1, 1, 1}}) {
            SCOPED_TRACE(name_of(c));
            const Scenario to = scenario_of(c, zero);
            Session second(to, lowered_schedule(to), cpu_engine());
            second.set_parameters(states);
            expect_same_bits(second.parameters(), states);
            Session third(from, lowered_schedule(from), cpu_engine());
            third.set_parameters(second.parameters());
            expect_same_bits(third.parameters(), states);
        }
}

TEST(ShareStates, GradientsAndWeightsAreNotSharedOutYet) {
    for (const ZeroStage zero : {ZeroStage::kGradients, ZeroStage::kParameters}) {
        const Scenario s = scenario_of({Style::kLlama, 1, 1, 2}, zero);
        try {
            Session session(s, lowered_schedule(s), cpu_engine());
            ADD_FAILURE() << "accepted";
        } catch (const InputError& error) {
            EXPECT_EQ(std::string(error.what()),
                      "this schedule cannot be run: got ZeRO stage " + std::to_string(static_cast<int>(zero)) +
                          ", expected 0 or 1: the runtime shares out the optimizer's states, not gradients or weights");
        }
    }
}

TEST(ShareStates, APlanOfOtherSharesIsRefused) {
    const Scenario whole = scenario_of({Style::kLlama, 1, 1, 2}, ZeroStage::kNone);
    const Scenario shared = scenario_of({Style::kLlama, 1, 1, 2});
    for (const auto& [scenario, of] : {std::pair(whole, shared), std::pair(shared, whole)})
        EXPECT_THROW(Session(scenario, lowered_schedule(of), cpu_engine()), InputError);
}

}  // namespace
}  // namespace sluice
