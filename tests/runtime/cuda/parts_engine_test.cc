// Whole models on parts of one GPU: pipeline stages, shards and replicas that talk to each other, against the CPU's one
// rank.
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/gpu_parts.h"
#include "runtime/cuda/in_process_transport.h"
#include "runtime/issue_order.h"
#include "runtime/local_ranks.h"
#include "runtime/rank_program.h"
#include "scenarios/scenario.h"
#include "tests/runtime/cuda/degrees_case.h"

namespace sluice::cuda {
namespace {

class CudaParts : public LibraryOnDevice {};

CudaOptions on_parts(const Degrees& d, bool deterministic = true) {
    CudaOptions options;
    options.deterministic = deterministic;
    options.device_of_rank = gpu_parts(static_cast<int>(d.ranks()));
    options.transport = in_process_transport();
    return options;
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
        EXPECT_NO_THROW(expect_issuable(schedule, rank_programs(schedule, all_ranks(schedule)))) << d;
    }
}

TEST_F(CudaParts, GradientsAreTheCpusOneRanks) {
    expect_gradients_of_one_rank(kAll, [](const Degrees& d) { return on_parts(d); });
}

TEST_F(CudaParts, SharedStatesChangeNoBit) {
    for (const Degrees& d : {Degrees{1, 1, 2}, Degrees{1, 2, 2}, Degrees{2, 1, 2}, kUlyssesReplicas, Degrees{1, 1, 4}})
        expect_shared_states_change_no_bit(d, on_parts(d));
}

TEST_F(CudaParts, PoisonAndDelayedCopiesChangeNoBit) {
    for (const Degrees& d : {Degrees{1, 2, 1}, Degrees{1, 4, 1}, Degrees{2, 2, 1}})
        expect_disturbances_change_no_bit(d, on_parts(d));
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

TEST_F(CudaParts, ARankWithoutAPartIsRefused) {
    CudaOptions options = on_parts({1, 2, 1});
    options.device_of_rank = gpu_parts(1);
    const Scenario s = scenario_of({1, 2, 1});
    EXPECT_THROW(Session(s, lowered_schedule(s), cuda_engine(options)), InputError);
}

}  // namespace
}  // namespace sluice::cuda
