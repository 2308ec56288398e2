// Small models cut over ranks, each with a GPU or a part of one: against the CPU's one rank, and against themselves.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda_decoder/cuda_engine.h"
#include "runtime/decoder/cpu_engine.h"
#include "scenarios/scenario.h"
#include "tests/runtime/cuda/cuda_training_case.h"
#include "tests/runtime/cuda/device_array.h"

namespace sluice::cuda {

struct Degrees {
    std::int64_t sp = 1, pp = 1, dp = 1;
    SequenceParallelKind kind = SequenceParallelKind::kMegatron;
    ZeroStage zero = ZeroStage::kNone;
    std::int64_t ranks() const { return sp * pp * dp; }
};

inline std::ostream& operator<<(std::ostream& out, const Degrees& d) {
    return out << "sp " << d.sp << " kind " << static_cast<int>(d.kind) << ", pp " << d.pp << ", dp " << d.dp
               << ", zero " << static_cast<int>(d.zero);
}

inline Scenario scenario_of(const Degrees& d, DataType weights = DataType::kBf16) {
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

// Replicas that share the optimizer's states out.
constexpr Degrees sharing(Degrees d) {
    d.zero = ZeroStage::kOptimizer;
    return d;
}

// What a session on those ranks is made with. Deterministic.
using OptionsOf = std::function<CudaOptions(const Degrees&)>;

// Bounds as of one rank: cuda_engine_test.cc says why.
inline void expect_gradients_of_one_rank(std::span<const Degrees> all, const OptionsOf& options_of) {
    const Scenario one = scenario_of(Degrees{}, DataType::kFp32);
    Session cpu(one, lowered_schedule(one), cpu_engine());
    cpu.initialise(7);
    const std::vector<WholeParameter> parameters = rounded(cpu.parameters());
    const StepTokens tokens = random_tokens(one, 1);
    const StepResult expected = step_of(cpu, parameters, tokens);
    const double loss = expected.report.loss.value(), norm = expected.report.gradient_norm;
    for (const Degrees& d : all) {
        SCOPED_TRACE(testing::Message() << d);
        std::cout << "  " << d << std::endl;  // where it stands if it does not end
        const Scenario s = scenario_of(d);
        Session gpu(s, lowered_schedule(s), cuda_engine(options_of(d)));
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

inline std::vector<double> losses_of(const Scenario& s, int steps, const CudaOptions& options,
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
inline void expect_shared_states_change_no_bit(const Degrees& d, const CudaOptions& options) {
    SCOPED_TRACE(testing::Message() << d);
    Scenario whole = scenario_of(d), shared = scenario_of(sharing(d));
    whole.batch = shared.batch = d.dp;
    std::vector<WholeParameter> expected, got;
    EXPECT_EQ(losses_of(shared, 5, options, &got), losses_of(whole, 5, options, &expected));
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(got[i].weights == expected[i].weights) << got[i].name;
        EXPECT_TRUE(got[i].first_moment == expected[i].first_moment) << got[i].name;
        EXPECT_TRUE(got[i].second_moment == expected[i].second_moment) << got[i].name;
    }
}

// Copies are held up at random and freed memory is spoilt: a message that is read too early, or whose memory is used
// again too early, changes bits.
inline void expect_disturbances_change_no_bit(const Degrees& d, CudaOptions options) {
    SCOPED_TRACE(testing::Message() << d);
    Scenario s = scenario_of(d);
    s.policy.placement = OffloadAll{};
    const std::vector<double> quiet = losses_of(s, 5, options);
    options.disturbances.poison_on_release = true;
    options.disturbances.delay_copies = Disturbances::Delays{5, Seconds{2e-3}};
    EXPECT_EQ(quiet, losses_of(s, 5, options));
}

}  // namespace sluice::cuda
