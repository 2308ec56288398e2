// Whole models on parts of one GPU: pipeline stages, shards and replicas that talk to each other, against the CPU's one
// rank.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/gpu_parts.h"
#include "runtime/cuda/in_process_transport.h"
#include "runtime/cuda_decoder/cuda_engine.h"
#include "runtime/decoder/cpu_engine.h"
#include "runtime/issue_order.h"
#include "runtime/local_ranks.h"
#include "runtime/rank_program.h"
#include "scenarios/scenario.h"
#include "tests/runtime/cuda/cuda_training_case.h"
#include "tests/runtime/cuda/device_array.h"

namespace sluice::cuda {
namespace {

class CudaParts : public LibraryOnDevice {};

struct Degrees {
    std::int64_t sp = 1, pp = 1, dp = 1;
    SequenceParallelKind kind = SequenceParallelKind::kMegatron;
    ZeroStage zero = ZeroStage::kNone;
    std::int64_t ranks() const { return sp * pp * dp; }
};

Scenario scenario_of(const Degrees& d, DataType weights = DataType::kBf16) {
    Scenario s = cuda::scenario_of(Style::kLlama, 1024, 4, weights);
    s.model.layers = 4;
    s.policy.sp = d.sp, s.policy.pp = d.pp, s.policy.dp = d.dp, s.policy.sp_kind = d.kind;
    s.policy.zero = d.zero;
    s.policy.partition.alignment = Tokens{128 * d.sp};
    s.batch = 2;  // of all replicas together
    s.cluster.gpus_per_node = d.ranks();
    s.cluster.gpu.memory = 16_GiB;
    return s;
}

CudaOptions on_parts(const Degrees& d, bool deterministic = true) {
    CudaOptions options;
    options.deterministic = deterministic;
    options.device_of_rank = gpu_parts(static_cast<int>(d.ranks()));
    options.transport = in_process_transport();
    return options;
}

// Replicas that share the optimizer's states out.
constexpr Degrees sharing(Degrees d) {
    d.zero = ZeroStage::kOptimizer;
    return d;
}

constexpr Degrees kUlyssesReplicas = {2, 1, 2, SequenceParallelKind::kUlysses};
constexpr Degrees kAll[] = {{1, 2, 1},
                            {1, 4, 1},
                            {2, 1, 1},
                            {2, 1, 1, SequenceParallelKind::kUlysses},
                            {1, 1, 2},
                            {2, 2, 1},
                            {1, 2, 2},
                            sharing({1, 1, 2}),
                            sharing({1, 2, 2}),
                            sharing({2, 1, 2}),
                            sharing(kUlyssesReplicas)};

// Needs no device: threads that meet while they issue do not block each other.
TEST(CudaPartsOrder, ShippedScenariosCanBeIssued) {
    int scenarios = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios")) {
        if (entry.path().stem().string().find("-split") == std::string::npos) continue;
        SCOPED_TRACE(entry.path());
        const Schedule schedule = lowered_schedule(read_scenario(entry.path()));
        EXPECT_NO_THROW(expect_issuable(schedule, rank_programs(schedule, all_ranks(schedule))));
        ++scenarios;
    }
    EXPECT_GE(scenarios, 6);
    for (const Degrees& d : kAll) {
        const Schedule schedule = lowered_schedule(scenario_of(d));
        EXPECT_NO_THROW(expect_issuable(schedule, rank_programs(schedule, all_ranks(schedule))))
            << "sp " << d.sp << ", pp " << d.pp << ", dp " << d.dp << ", zero " << static_cast<int>(d.zero);
    }
}

// Bounds as of one rank: cuda_engine_test.cc says why.
TEST_F(CudaParts, GradientsAreTheCpusOneRanks) {
    const Scenario one = scenario_of(Degrees{}, DataType::kFp32);
    Session cpu(one, lowered_schedule(one), cpu_engine());
    cpu.initialise(7);
    const std::vector<WholeParameter> parameters = rounded(cpu.parameters());
    const StepTokens tokens = random_tokens(one, 1);
    const StepResult expected = step_of(cpu, parameters, tokens);
    const double loss = expected.report.loss.value(), norm = expected.report.gradient_norm;
    for (const Degrees& d : kAll) {
        SCOPED_TRACE(testing::Message() << "sp " << d.sp << " kind " << static_cast<int>(d.kind) << ", pp " << d.pp
                                        << ", dp " << d.dp << ", zero " << static_cast<int>(d.zero));
        const Scenario s = scenario_of(d);
        Session gpu(s, lowered_schedule(s), cuda_engine(on_parts(d)));
        const StepResult got = step_of(gpu, parameters, tokens);
        EXPECT_NEAR(got.report.loss.value(), loss, 2e-3 * loss);
        EXPECT_NEAR(got.report.gradient_norm, norm, 1e-2 * norm);
        ASSERT_EQ(got.gradients.size(), expected.gradients.size());
        for (std::size_t i = 0; i < got.gradients.size(); ++i)
            EXPECT_LE(relative_error(got.gradients[i].weights,
                                     {expected.gradients[i].weights.begin(), expected.gradients[i].weights.end()}),
                      2e-2)
                << got.gradients[i].name;
    }
}

std::vector<double> losses_of(const Scenario& s, int steps, const CudaOptions& options,
                              std::vector<WholeParameter>* parameters = nullptr) {
    Session session(s, lowered_schedule(s), cuda_engine(options));
    session.initialise(3);
    StepSettings settings;
    settings.learning_rate = 1e-3F;
    std::vector<double> losses;
    for (int k = 0; k < steps; ++k)
        losses.push_back(session.step(random_tokens(s, static_cast<std::uint32_t>(k)), settings).loss.value());
    if (parameters != nullptr) *parameters = session.parameters();
    return losses;
}

// The same sums in the same order, element by element; only the norm is added up in another order, in double, which the
// scale of clipping, a float, does not see. A share of weights that does not arrive shows in the next loss.
TEST_F(CudaParts, SharedStatesChangeNoBit) {
    for (const Degrees& d : {Degrees{1, 1, 2}, Degrees{1, 2, 2}, Degrees{2, 1, 2}, kUlyssesReplicas, Degrees{1, 1, 4}}) {
        SCOPED_TRACE(testing::Message() << "sp " << d.sp << " kind " << static_cast<int>(d.kind) << ", pp " << d.pp
                                        << ", dp " << d.dp);
        Scenario whole = scenario_of(d), shared = scenario_of(sharing(d));
        whole.batch = shared.batch = d.dp;
        std::vector<WholeParameter> expected, got;
        EXPECT_EQ(losses_of(shared, 5, on_parts(d), &got), losses_of(whole, 5, on_parts(d), &expected));
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(got[i].weights == expected[i].weights) << got[i].name;
            EXPECT_TRUE(got[i].first_moment == expected[i].first_moment) << got[i].name;
            EXPECT_TRUE(got[i].second_moment == expected[i].second_moment) << got[i].name;
        }
    }
}

// States written by one plan and read by another are the same.
TEST_F(CudaParts, SharedStatesAreReadAndWrittenWhole) {
    const Scenario shared = scenario_of(sharing({1, 1, 2})), whole = scenario_of({1, 1, 2});
    Session first(shared, lowered_schedule(shared), cuda_engine(on_parts({1, 1, 2})));
    first.initialise(3);
    for (std::uint32_t k = 0; k < 2; ++k) first.step(random_tokens(shared, k), {1e-3F});
    const std::vector<WholeParameter> states = first.parameters();
    const double next = first.step(random_tokens(shared, 9), {1e-3F}).loss.value();
    for (const Scenario& s : {shared, whole}) {
        Session second(s, lowered_schedule(s), cuda_engine(on_parts({1, 1, 2})));
        second.set_parameters(states), second.set_steps(2);
        const std::vector<WholeParameter> got = second.parameters();
        for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_TRUE(got[i].weights == states[i].weights) << got[i].name;
            EXPECT_TRUE(got[i].second_moment == states[i].second_moment) << got[i].name;
        }
        EXPECT_EQ(second.step(random_tokens(s, 9), {1e-3F}).loss.value(), next);
    }
}

// Copies are held up at random and freed memory is spoilt: a message that is read too early, or whose memory is used
// again too early, changes bits.
TEST_F(CudaParts, PoisonAndDelayedCopiesChangeNoBit) {
    for (const Degrees& d : {Degrees{1, 2, 1}, Degrees{1, 4, 1}, Degrees{2, 2, 1}}) {
        Scenario s = scenario_of(d);
        s.policy.placement = OffloadAll{};
        CudaOptions options = on_parts(d);
        const std::vector<double> quiet = losses_of(s, 5, options);
        options.disturbances.poison_on_release = true;
        options.disturbances.delay_copies = Disturbances::Delays{5, Seconds{2e-3}};
        EXPECT_EQ(quiet, losses_of(s, 5, options)) << "sp " << d.sp << ", pp " << d.pp;
    }
}

TEST_F(CudaParts, ARankWithoutAPartIsRefused) {
    CudaOptions options = on_parts({1, 2, 1});
    options.device_of_rank = gpu_parts(1);
    const Scenario s = scenario_of({1, 2, 1});
    EXPECT_THROW(Session(s, lowered_schedule(s), cuda_engine(options)), InputError);
}

}  // namespace
}  // namespace sluice::cuda
