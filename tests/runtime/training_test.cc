// A step of the runtime against the uncut reference in double, and the cuts, placements and orders against each other.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/decoder/cpu_engine.h"
#include "tests/runtime/same_bits.h"
#include "tests/runtime/deeper_prefetch.h"
#include "tests/runtime/training_case.h"

namespace sluice {
namespace {

// fp32 sums of up to a few hundred terms, a dozen of them one behind the other: some units of 2^-24 each, 6e-8. The
// norm of the error over a tensor stays below this; one wrong term would be 1e-2.
constexpr double kBound = 2e-5;

void expect_reference(const Scenario& scenario) {
    Session session(scenario, lowered_schedule(scenario), cpu_engine());
    session.initialise(7);
    const ReferenceParameters parameters = reference_parameters(session);
    const StepTokens tokens = random_tokens(scenario, 1);
    const ReferenceResult expected = reference_model(scenario.model, parameters, tokens.inputs, tokens.targets);
    StepSettings settings;
    settings.learning_rate = 0, settings.clip = 0;
    const StepReport report = session.step(tokens, settings);
    EXPECT_NEAR(report.loss.value(), expected.loss, 1e-5 * expected.loss);
    double squares = 0;
    std::size_t compared = 0;
    for (const WholeParameter& gradient : session.gradients()) {
        const auto found = expected.gradients.find(gradient.name);
        ASSERT_NE(found, expected.gradients.end()) << gradient.name;
        EXPECT_LE(relative_error(gradient.weights, found->second.values), kBound) << gradient.name;
        for (const double g : found->second.values) squares += g * g;
        ++compared;
    }
    EXPECT_EQ(compared, expected.gradients.size()) << "every parameter of the reference";
    EXPECT_NEAR(report.gradient_norm, std::sqrt(squares), 1e-5 * std::sqrt(squares));
}

struct Cut {  // printed by its name
    Style style;
    std::int64_t tokens, n, sp, pp, dp;
    SequenceParallelKind kind = SequenceParallelKind::kMegatron;
    TraversalOrder order = TraversalOrder::kSubsequenceMajor;
};

class TrainingStep : public testing::TestWithParam<Cut> {};

TEST_P(TrainingStep, IsTheReferencesInDouble) {
    const Cut& c = GetParam();
    Scenario s = training_scenario(tiny_architecture(c.style), c.tokens, c.n, c.sp, c.pp, c.dp);
    if (c.style == Style::kLlama)
        s.model.heads = 8, s.model.kv_heads = c.sp == 4 ? 4 : 2;  // GQA, heads wider than hidden
    s.policy.sp_kind = c.kind, s.policy.order = c.order;
    expect_reference(s);
}

void PrintTo(const Cut& c, std::ostream* out);

std::string cut_name(const Cut& c) {
    const char* styles[] = {"Llama", "Gpt2", "Neox"};
    return std::string(styles[static_cast<int>(c.style)]) + "_S" + std::to_string(c.tokens) + "_N" +
           std::to_string(c.n) + "_SP" + std::to_string(c.sp) + "_PP" + std::to_string(c.pp) + "_DP" +
           std::to_string(c.dp) + (c.kind == SequenceParallelKind::kUlysses ? "_Ulysses" : "") +
           (c.order == TraversalOrder::kLayerMajor ? "_ByLayer" : "");
}

void PrintTo(const Cut& c, std::ostream* out) { *out << cut_name(c); }

INSTANTIATE_TEST_SUITE_P(Cuts, TrainingStep,
                         testing::Values(Cut{Style::kLlama, 7, 1, 1, 1, 1}, Cut{Style::kGpt2, 7, 1, 1, 1, 1},
                                         Cut{Style::kNeox, 7, 1, 1, 1, 1}, Cut{Style::kLlama, 7, 7, 1, 1, 1},
                                         Cut{Style::kGpt2, 129, 2, 1, 1, 1}, Cut{Style::kNeox, 127, 3, 1, 1, 1},
                                         Cut{Style::kLlama, 129, 7, 1, 1, 1}, Cut{Style::kLlama, 48, 3, 2, 1, 1},
                                         Cut{Style::kGpt2, 48, 3, 2, 1, 1}, Cut{Style::kNeox, 48, 2, 4, 1, 1},
                                         Cut{Style::kLlama, 48, 2, 4, 1, 1}, Cut{Style::kLlama, 41, 3, 1, 2, 1},
                                         Cut{Style::kGpt2, 41, 3, 1, 2, 1}, Cut{Style::kGpt2, 41, 2, 1, 4, 1},
                                         Cut{Style::kNeox, 41, 5, 1, 4, 1}, Cut{Style::kGpt2, 24, 2, 1, 1, 2},
                                         Cut{Style::kLlama, 24, 3, 2, 2, 2}, Cut{Style::kGpt2, 24, 3, 2, 2, 2}),
                         [](const auto& test) { return cut_name(test.param); });

TEST(Training, UsesTheModelsOwnConstants) {
    for (const Style style : {Style::kLlama, Style::kNeox}) {
        Architecture model = tiny_architecture(style);
        model.rope_theta = 50, model.norm_epsilon = 0.02;
        expect_reference(training_scenario(model, 24, 2, 2));
    }
}

constexpr Cut ulysses(Cut c) {
    c.kind = SequenceParallelKind::kUlysses;
    return c;
}
constexpr Cut by_layer(Cut c) {
    c.order = TraversalOrder::kLayerMajor;
    return c;
}

// Lengths are multiples of sp, parts of them odd.
INSTANTIATE_TEST_SUITE_P(
    UlyssesCuts, TrainingStep,
    testing::Values(ulysses({Style::kLlama, 6, 1, 2, 1, 1}), ulysses({Style::kGpt2, 42, 7, 2, 1, 1}),
                    ulysses({Style::kNeox, 46, 3, 2, 1, 1}), ulysses({Style::kLlama, 52, 3, 4, 1, 1}),
                    ulysses({Style::kGpt2, 44, 1, 4, 1, 1}), ulysses({Style::kNeox, 60, 7, 4, 1, 1}),
                    ulysses({Style::kLlama, 46, 3, 2, 2, 1}), ulysses({Style::kGpt2, 52, 3, 4, 2, 1}),
                    ulysses({Style::kNeox, 42, 7, 2, 4, 1}), ulysses({Style::kGpt2, 26, 3, 2, 1, 2}),
                    ulysses({Style::kLlama, 26, 3, 2, 2, 2}), ulysses({Style::kGpt2, 26, 3, 2, 2, 2}),
                    by_layer(ulysses({Style::kLlama, 54, 7, 2, 1, 1})),
                    by_layer(ulysses({Style::kGpt2, 44, 3, 4, 1, 1})),
                    by_layer(ulysses({Style::kNeox, 26, 1, 2, 1, 2}))),
    [](const auto& test) { return cut_name(test.param); });

// ---- Placement and order change no bit

std::vector<WholeParameter> trained(const Scenario& scenario, Schedule schedule, int steps,
                                    std::vector<double>* losses = nullptr, const CpuOptions& options = {}) {
    Session session(scenario, std::move(schedule), cpu_engine(options));
    session.initialise(3);
    StepSettings settings;
    settings.learning_rate = 1e-2F;
    for (int k = 0; k < steps; ++k) {
        const double loss = session.step(random_tokens(scenario, static_cast<std::uint32_t>(k)), settings).loss.value();
        if (losses != nullptr) losses->push_back(loss);
    }
    return session.parameters();
}

std::vector<WholeParameter> trained(const Scenario& scenario, int steps, std::vector<double>* losses = nullptr,
                                    const CpuOptions& options = {}) {
    return trained(scenario, lowered_schedule(scenario), steps, losses, options);
}

struct Degrees {
    std::int64_t sp, pp;
    SequenceParallelKind kind = SequenceParallelKind::kMegatron;
    bool ulysses() const { return kind == SequenceParallelKind::kUlysses; }
};
constexpr auto kUlysses = SequenceParallelKind::kUlysses;

TEST(Training, PlacementsGiveTheSameBitsOverTenSteps) {
    for (const Style style : {Style::kLlama, Style::kGpt2})
        for (const Degrees d : {Degrees{1, 1}, Degrees{2, 1}, Degrees{1, 2}, Degrees{2, 2}, Degrees{4, 1, kUlysses},
                                Degrees{2, 2, kUlysses}}) {
            SCOPED_TRACE(testing::Message() << "style " << static_cast<int>(style) << " sp " << d.sp << " pp " << d.pp
                                            << (d.ulysses() ? " ulysses" : ""));
            Scenario s = training_scenario(tiny_architecture(style), 48, 3, d.sp, d.pp);
            s.policy.sp_kind = d.kind;
            const std::vector<WholeParameter> kept = trained(s, 10);
            for (const PlacementPolicy& placement :
                 {PlacementPolicy{OffloadAll{}}, PlacementPolicy{OffloadRatio{0.5}}, PlacementPolicy{RecomputeAll{}}}) {
                s.policy.placement = placement;
                expect_same_bits(kept, trained(s, 10));
            }
            if (d.sp == 1 || d.ulysses()) continue;
            s.policy.saved_inputs = SavedInputs::kGathered;
            expect_same_bits(kept, trained(s, 10));
            s.policy.placement = KeepAll{};
            expect_same_bits(kept, trained(s, 10));
        }
}

TEST(Training, OrdersGiveTheSameBitsOverTenSteps) {
    for (const Style style : {Style::kLlama, Style::kGpt2})
        for (const Degrees d : {Degrees{1, 1}, Degrees{2, 1}, Degrees{2, 1, kUlysses}}) {
            Scenario s = training_scenario(tiny_architecture(style), 48, 3, d.sp, 1);
            s.policy.sp_kind = d.kind;
            const std::vector<WholeParameter> by_subsequence = trained(s, 10);
            s.policy.order = TraversalOrder::kLayerMajor;
            expect_same_bits(by_subsequence, trained(s, 10));
            for (const PlacementPolicy& placement : {PlacementPolicy{OffloadAll{}}, PlacementPolicy{RecomputeAll{}}}) {
                s.policy.placement = placement;
                expect_same_bits(by_subsequence, trained(s, 10));
            }
        }
}

TEST(Training, PrefetchDepthsGiveTheSameBitsOverTenSteps) {
    Scenario s = training_scenario(tiny_architecture(Style::kLlama), 48, 4);
    s.policy.placement = OffloadAll{};
    for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor}) {
        s.policy.order = order;
        const Schedule planned = lowered_schedule(s);
        const std::vector<WholeParameter> expected = trained(s, planned, 10);
        for (const std::size_t ahead : {1U, 2U, 5U}) {
            const Schedule deeper = deeper_prefetch(planned, ahead);
            EXPECT_FALSE(deeper.ops == planned.ops);
            expect_same_bits(expected, trained(s, deeper, 10));
        }
    }
}

TEST(Training, LeanInventoryGivesTheSameBitsOverTenSteps) {
    for (const Style style : {Style::kLlama, Style::kGpt2, Style::kNeox})
        for (const Degrees d : {Degrees{1, 1}, Degrees{2, 1}, Degrees{2, 1, kUlysses}}) {
            Scenario s = training_scenario(tiny_architecture(style), 48, 3, d.sp, 1);
            s.policy.sp_kind = d.kind;
            const std::vector<WholeParameter> saved = trained(s, 10);
            s.policy.inventory = Inventory::kLean;
            for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor})
                for (const PlacementPolicy& placement :
                     {PlacementPolicy{KeepAll{}}, PlacementPolicy{OffloadAll{}}, PlacementPolicy{RecomputeAll{}}}) {
                    SCOPED_TRACE(testing::Message() << "style " << static_cast<int>(style) << " sp " << d.sp << " order "
                                                    << static_cast<int>(order) << " placement " << placement.index());
                    s.policy.order = order, s.policy.placement = placement;
                    expect_same_bits(saved, trained(s, 10));
                }
            if (d.sp == 1 || d.ulysses()) continue;
            s.policy.saved_inputs = SavedInputs::kGathered, s.policy.placement = KeepAll{};
            expect_same_bits(saved, trained(s, 10));
        }
}

// Whole layers made again from their block inputs, attention included: forward's bits.
TEST(Training, RecomputedLayersGiveTheSameBitsOverTenSteps) {
    for (const Style style : {Style::kLlama, Style::kGpt2, Style::kNeox})
        for (const Degrees d :
             {Degrees{1, 1}, Degrees{2, 1}, Degrees{1, 2}, Degrees{2, 1, kUlysses}, Degrees{2, 2, kUlysses}}) {
            Scenario s = training_scenario(tiny_architecture(style), 48, 3, d.sp, d.pp);
            s.policy.sp_kind = d.kind;
            const std::vector<WholeParameter> kept = trained(s, 10);
            s.policy.placement = RecomputeAll{}, s.policy.recompute = RecomputeScope::kLayer;
            for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor})
                for (const Inventory inventory : {Inventory::kRuntime, Inventory::kLean}) {
                    if (order == TraversalOrder::kLayerMajor && d.pp > 1) continue;
                    SCOPED_TRACE(testing::Message()
                                 << "style " << static_cast<int>(style) << " sp " << d.sp << " pp " << d.pp << " order "
                                 << static_cast<int>(order) << " inventory " << static_cast<int>(inventory));
                    s.policy.order = order, s.policy.inventory = inventory;
                    expect_same_bits(kept, trained(s, 10));
                }
            if (d.sp == 1 || d.ulysses()) continue;
            s.policy.saved_inputs = SavedInputs::kGathered;
            expect_same_bits(kept, trained(s, 10));
        }
}

// The GPU's memory taken away until the plan is as wanted.
Scenario with_less_memory(Scenario s, bool (*wanted)(const StagePlan&)) {
    s.cluster.gpu.reserved = 0_B;
    for (Bytes memory = 8_MiB; memory > 64_KiB; memory = Bytes{memory.value * 31 / 32}) {
        s.cluster.gpu.memory = memory;
        const Lowered lowered = lower(s);
        if (!lowered.feasible()) break;
        if (wanted(lowered.plan.stages.front())) return s;
    }
    throw std::runtime_error("no memory is so small that the plan is as wanted");
}

bool recomputes_some(const StagePlan& plan) {
    const auto [least, most] = std::minmax_element(plan.recomputed.begin(), plan.recomputed.end());
    return least != most && *least < *most;
}
bool moves_kv(const StagePlan& plan) { return plan.kv_offloaded > 0; }

TEST(Training, KeptAndRecomputedLayersBesideEachOtherChangeNoBit) {
    for (const Degrees d : {Degrees{1, 1}, Degrees{2, 1}, Degrees{2, 1, kUlysses}})
        for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor})
            for (const Inventory inventory : {Inventory::kRuntime, Inventory::kLean}) {
                Scenario s = training_scenario(tiny_architecture(Style::kLlama), 192, 3, d.sp, d.pp);
                s.policy.sp_kind = d.kind, s.policy.order = order, s.policy.inventory = inventory;
                s.calibration.gemm_workspace = 64_KiB;
                const std::vector<WholeParameter> kept = trained(s, 3);
                s.policy.placement = ThreeWay{}, s.policy.recompute = RecomputeScope::kLayer;
                expect_same_bits(kept, trained(with_less_memory(s, recomputes_some), 3));
            }
}

TEST(Training, KeysAndValuesOnTheHostChangeNoBit) {
    for (const Degrees d : {Degrees{1, 1}, Degrees{2, 1}, Degrees{2, 1, kUlysses}})
        for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor}) {
            Architecture model = tiny_architecture(Style::kLlama);
            model.head_dim = 128, model.kv_heads = 4;  // K and V large beside the rest
            Scenario s = training_scenario(model, 192, 3, d.sp, d.pp);
            s.policy.sp_kind = d.kind, s.policy.order = order;
            s.calibration.gemm_workspace = 64_KiB;
            const std::vector<WholeParameter> kept = trained(s, 3);
            s.policy.placement = OffloadAll{}, s.policy.kv = KvPlacement::kOffload;
            expect_same_bits(kept, trained(with_less_memory(s, moves_kv), 3));
            s.policy.placement = RecomputeAll{}, s.policy.recompute = RecomputeScope::kLayer;
            expect_same_bits(kept, trained(with_less_memory(s, moves_kv), 3));
        }
}

TEST(Training, PoisonAndDelayedCopiesChangeNoBit) {
    for (const Degrees d : {Degrees{1, 1}, Degrees{2, 2}, Degrees{2, 2, kUlysses}}) {
        Scenario s = training_scenario(tiny_architecture(Style::kLlama), 48, 3, d.sp, d.pp);
        s.policy.placement = OffloadAll{}, s.policy.sp_kind = d.kind;
        CpuOptions options;
        options.poison_on_release = true;
        options.delay_copies = CopyDelays{11, Seconds{300e-6}};
        std::vector<double> quiet, disturbed;
        const auto a = trained(s, 4, &quiet);
        expect_same_bits(a, trained(s, 4, &disturbed, options));
        EXPECT_EQ(quiet, disturbed);
    }
}

}  // namespace
}  // namespace sluice
