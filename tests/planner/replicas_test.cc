// Data parallelism and ZeRO: what a lowered step holds and sends, against the formulas of the ZeRO paper (arXiv
// 1910.02054, sections 5 and 7).
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "models/collective_cost.h"
#include "models/kernel_cost.h"
#include "models/model_flops.h"
#include "models/rank_memory.h"
#include "planner/lower.h"
#include "planner/step_estimate.h"
#include "schedule/place_memory.h"
#include "schedule/schedule_text.h"
#include "schedule/verify.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

constexpr ZeroStage kStages[] = {ZeroStage::kNone, ZeroStage::kOptimizer, ZeroStage::kGradients,
                                 ZeroStage::kParameters};

Scenario replicated(std::int64_t sp, std::int64_t pp, std::int64_t dp, ZeroStage zero, Granularity granularity) {
    Scenario s = small_scenario(sp, pp, 3);
    s.cluster.gpus_per_node = sp * pp * dp;
    s.sequence = Tokens{1024};
    s.batch = 2 * dp;
    s.policy.dp = dp, s.policy.zero = zero, s.policy.granularity = granularity;
    return s;
}

// Every combination, for tests of properties; models with tied and untied embeddings in turn.
template <class Check>
void for_each_case(const Check& check) {
    bool tied = false;
    for (const std::int64_t sp : {1, 2})
        for (const std::int64_t pp : {1, 2, 4})
            for (const std::int64_t dp : {1, 2, 3, 4})
                for (const ZeroStage zero : kStages)
                    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
                        Scenario s = replicated(sp, pp, dp, zero, granularity);
                        s.model.tied_embeddings = tied = !tied;
                        SCOPED_TRACE(testing::Message() << "sp " << sp << " pp " << pp << " dp " << dp << " zero "
                                                        << static_cast<int>(zero) << " granularity "
                                                        << static_cast<int>(granularity) << " tied " << tied);
                        check(s);
                        if (testing::Test::HasFatalFailure()) return;
                    }
}

std::string first_problem(const Schedule& schedule) {
    const Diagnostics diagnostics = verify(schedule);
    return diagnostics.empty() ? "" : diagnostics.front().rule + ": " + diagnostics.front().message;
}

// Parameters of each part of a stage: its layers one by one, then embedding and head where it has them.
std::vector<ParameterRuns> parts_of_stage(const Scenario& s, std::int64_t stage) {
    std::vector<ParameterRuns> parts(static_cast<std::size_t>(s.model.layers / s.policy.pp), layer_runs(s));
    if (stage == 0) parts.push_back(embedding_runs(s));
    if (stage + 1 == s.policy.pp) parts.push_back(head_runs(s));
    return parts;
}

TEST(Replicas, EveryCombinationIsValid) {
    for_each_case([](Scenario s) {
        for (const PlacementPolicy& placement :
             {PlacementPolicy{KeepAll{}}, PlacementPolicy{OffloadRatio{0.4}}, PlacementPolicy{RecomputeAll{}}}) {
            s.policy.placement = placement;
            const Lowered lowered = lower(s);
            ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
            ASSERT_EQ(first_problem(lowered.schedule), "");
            ASSERT_EQ(static_cast<std::int64_t>(lowered.schedule.ranks.size()), s.ranks());
        }
    });
}

// Weights, optimizer states and gradients of every rank: 1/dp of each run from the ZeRO stage on that shares them
// out.
TEST(Replicas, StatesAreSharedOutByStage) {
    for_each_case([](const Scenario& s) {
        const Lowered lowered = lower(s);
        std::map<std::pair<std::size_t, BufferKind>, Bytes> held;
        for (const Buffer& b : lowered.schedule.buffers) held[{index(b.rank), b.kind}] += b.bytes;
        for (std::int64_t rank = 0; rank < s.ranks(); ++rank) {
            std::int64_t weights = 0, optimizer = 0, gradients = 0;
            for (const ParameterRuns& part : parts_of_stage(s, rank / (s.policy.sp * s.policy.dp)))
                for (const ParameterRun& run : part) {
                    const std::int64_t all = run.parameters, share = (all + s.policy.dp - 1) / s.policy.dp;
                    optimizer += s.policy.zero >= ZeroStage::kOptimizer ? share : all;
                    gradients += s.policy.zero >= ZeroStage::kGradients ? share : all;
                    weights += s.policy.zero >= ZeroStage::kParameters ? share : all;
                }
            const auto bytes = [&](BufferKind kind) { return held[{static_cast<std::size_t>(rank), kind}].value; };
            EXPECT_EQ(bytes(BufferKind::kWeights), 2 * weights);
            EXPECT_EQ(bytes(BufferKind::kOptimizer), 12 * optimizer);
            EXPECT_EQ(bytes(BufferKind::kGrads), 4 * gradients);
        }
    });
}

// Bytes that one rank of a data-parallel group sends to it in a step, by kind of collective.
std::map<CollectiveKind, double> sent_to_replicas(const Scenario& s, const Schedule& schedule, Rank rank) {
    std::map<CollectiveKind, double> sent;
    for (const Op& op : schedule.ops) {
        const auto* work = std::get_if<Collective>(&op.work);
        if (op.rank != rank || work == nullptr) continue;
        const std::vector<Rank>& members = schedule.groups[index(work->group)].members;
        const auto sp = static_cast<std::size_t>(s.policy.sp);
        const bool replicas = static_cast<std::int64_t>(members.size()) == s.policy.dp &&
                              index(members[1]) - index(members[0]) == sp &&
                              index(members[0]) / (sp * members.size()) == index(members[1]) / (sp * members.size());
        if (replicas && work->bytes != 8_B)
            sent[work->kind] +=
                ring_fraction(work->kind, members.size()) * static_cast<double>(work->bytes.value * work->calls);
    }
    return sent;
}

// Section 7: 2 P for stages 0 to 2 where gradients are reduced once, 3 P for stage 3, times (dp-1)/dp. Stages 2 and 3
// pay theirs for every subsequence, since gradients of several accumulate.
TEST(Replicas, VolumesAreThePapers) {
    for_each_case([](const Scenario& s) {
        const std::int64_t dp = s.policy.dp, times = s.policy.n * s.sequences_of_replica();
        if (dp == 1) return;
        const Lowered lowered = lower(s);
        const bool shares_table = s.model.tied_embeddings && s.policy.pp == 1;  // the head uses the embedding
        for (std::int64_t rank = 0; rank < s.ranks(); ++rank) {
            const std::int64_t stage = rank / (s.policy.sp * dp);
            double parameters = 0, layers = 0;
            for (const ParameterRuns& part : parts_of_stage(s, stage))
                parameters += static_cast<double>(all_parameters(part).total());
            layers = static_cast<double>(s.model.layers / s.policy.pp * layer_parameters(s).total());
            const double table = shares_table ? static_cast<double>(embedding_parameters(s).sharded) : 0;
            const auto share = static_cast<double>(dp - 1) / static_cast<double>(dp);
            const auto repeated = static_cast<double>(times);
            double reduced = 0, scattered = 0, gathered = 0;
            switch (s.policy.zero) {
                case ZeroStage::kNone:
                    reduced = 2 * 4 * parameters;
                    break;
                case ZeroStage::kOptimizer:
                    scattered = 4 * parameters, gathered = 2 * parameters;
                    break;
                case ZeroStage::kGradients:
                    scattered = 2 * (parameters + table) * repeated, gathered = 2 * parameters;
                    break;
                case ZeroStage::kParameters:  // the embedding and the head are used in one direction
                    scattered = 2 * (parameters + table) * repeated;
                    gathered = 2 * (parameters + layers + table) * repeated;
                    break;
            }
            auto sent = sent_to_replicas(s, lowered.schedule, id_at<Rank>(static_cast<std::size_t>(rank)));
            EXPECT_NEAR(sent[CollectiveKind::kAllReduce], reduced * share, 1e-6 * parameters);
            EXPECT_NEAR(sent[CollectiveKind::kReduceScatter], scattered * share, 1e-6 * parameters);
            EXPECT_NEAR(sent[CollectiveKind::kAllGather], gathered * share, 1e-6 * parameters);
        }
    });
}

// Layer-major, every layer's weights are needed once per sequence and direction, and its gradients are whole after the
// last of its subsequences.
TEST(Replicas, LayerMajorExchangesOncePerSequence) {
    for (const std::int64_t sp : {1, 2})
        for (const std::int64_t dp : {2, 3})
            for (const ZeroStage zero : kStages)
                for (const bool tied : {false, true}) {
                    Scenario s = replicated(sp, 1, dp, zero, Granularity::kLayer);
                    s.policy.order = TraversalOrder::kLayerMajor;
                    s.model.tied_embeddings = tied;
                    const Lowered lowered = lower(s);
                    ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
                    ASSERT_EQ(first_problem(lowered.schedule), "") << static_cast<int>(zero) << tied;
                    if (zero < ZeroStage::kGradients) continue;
                    double parameters = 0;
                    for (const ParameterRuns& part : parts_of_stage(s, 0))
                        parameters += static_cast<double>(all_parameters(part).total());
                    const auto layers = static_cast<double>(s.model.layers * layer_parameters(s).total());
                    const double table = tied ? static_cast<double>(embedding_parameters(s).sharded) : 0;
                    const double share = static_cast<double>(dp - 1) / static_cast<double>(dp);
                    const auto sequences = static_cast<double>(s.sequences_of_replica());
                    auto sent = sent_to_replicas(s, lowered.schedule, id_at<Rank>(0));
                    EXPECT_NEAR(sent[CollectiveKind::kReduceScatter], 4 * (parameters + table) * sequences * share,
                                1e-6 * parameters);
                    EXPECT_NEAR(
                        sent[CollectiveKind::kAllGather],
                        2 * share *
                            (zero == ZeroStage::kParameters ? (parameters + layers + table) * sequences : parameters),
                        1e-6 * parameters);
                }
}

// Replica d of a stage is ranks [(stage dp + d) sp, ... + sp), and runs the d-th part of the batch; nothing is computed
// twice but the optimizer's part that is not shared out.
TEST(Replicas, EachRunsItsPartOfTheBatch) {
    for_each_case([](const Scenario& s) {
        const Lowered lowered = lower(s);
        double gemms = 0;
        for (const Op& op : lowered.schedule.ops) {
            const auto replica = static_cast<std::int64_t>(index(op.rank)) / s.policy.sp % s.policy.dp;
            EXPECT_EQ(op.tag.sequence / s.sequences_of_replica(), replica);
            EXPECT_EQ(op.tag.stage, static_cast<std::int64_t>(index(op.rank)) / (s.policy.sp * s.policy.dp));
            if (const auto* compute = std::get_if<Compute>(&op.work))
                for (const Kernel& kernel : compute->kernels)
                    if (std::holds_alternative<Gemm>(kernel.shape)) gemms += flops(kernel.shape).value * kernel.count;
        }
        Scenario alone = s;
        alone.policy.dp = 1, alone.policy.sp = 1, alone.policy.pp = 1, alone.batch = 1;
        double one = 0;
        for (const Op& op : lower(alone).schedule.ops)
            if (const auto* compute = std::get_if<Compute>(&op.work))
                for (const Kernel& kernel : compute->kernels)
                    if (std::holds_alternative<Gemm>(kernel.shape)) one += flops(kernel.shape).value * kernel.count;
        EXPECT_NEAR(gemms, one * static_cast<double>(s.batch), 1e-9 * gemms);
    });
}

// The norm of the gradients is summed over the ranks that hold different parts of them, once each.
TEST(Replicas, TheNormIsSummedOverDifferentParts) {
    for_each_case([](const Scenario& s) {
        const Lowered lowered = lower(s);
        const bool shared = s.policy.dp > 1 && s.policy.zero >= ZeroStage::kOptimizer;
        std::set<std::size_t> sizes;
        for (const Op& op : lowered.schedule.ops)
            if (const auto* work = std::get_if<Collective>(&op.work); work != nullptr && work->bytes == 8_B)
                sizes.insert(lowered.schedule.groups[index(work->group)].members.size());
        const auto expected = static_cast<std::size_t>(s.policy.sp * s.policy.pp * (shared ? s.policy.dp : 1));
        EXPECT_EQ(sizes, expected > 1 ? std::set{expected} : std::set<std::size_t>{});
    });
}

// What ranks hold together is summed by those that step it, of that what they step: so the reductions over shards and
// over both ends of the pipeline get smaller with every replica that shares states out.
TEST(Replicas, SumsWithinAReplicaAreOfTheShareThatIsStepped) {
    for_each_case([](const Scenario& s) {
        const Lowered lowered = lower(s);
        for (const Op& op : lowered.schedule.ops) {
            const auto* work = std::get_if<Collective>(&op.work);
            if (work == nullptr || op.tag.phase != Phase::kOptimizer) continue;
            const auto stage = static_cast<std::int64_t>(index(op.rank)) / (s.policy.sp * s.policy.dp);
            std::int64_t expected = held_parameters(s, ZeroStage::kOptimizer, table_parameters(s));
            if (op.tag.function == Function::kReplicated) {
                expected = 0;
                for (const ParameterRuns& part : parts_of_stage(s, stage))
                    expected += held_parameters(s, ZeroStage::kOptimizer, part).replicated;
            } else if (op.tag.function != Function::kTiedTable) {
                continue;
            }
            EXPECT_EQ(work->bytes.value, 4 * expected);
        }
    });
}

// One replica: whatever ZeRO stage is asked for, nothing changes.
TEST(Replicas, OneReplicaHasNothingToShare) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
        const std::string plain = to_text(lower(replicated(2, 2, 1, ZeroStage::kNone, granularity)).schedule);
        for (const ZeroStage zero : kStages)
            EXPECT_EQ(to_text(lower(replicated(2, 2, 1, zero, granularity)).schedule), plain);
    }
}

// More is shared out, less is held: at the peak, and in the whole arena where transients are small beside states.
TEST(Replicas, EveryStageNeedsLessMemory) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
        Bytes before = 1024_GiB;
        for (const ZeroStage zero : kStages) {
            Scenario s = replicated(1, 1, 4, zero, granularity);
            s.model.layers = 32;
            s.model.vocabulary = 64;
            s.sequence = Tokens{64};
            const std::vector<LivePeak> peaks = live_peaks(lower(s).schedule, Space::kDevice);
            EXPECT_LT(peaks[0].bytes, before) << static_cast<int>(zero);
            before = peaks[0].bytes;
        }
    }
}

// Gathers and reductions are listed where they can run beside compute: with links that are fast but not infinitely so,
// the estimate of stage 3 stays far below the sum of compute and communication.
TEST(Replicas, ExchangesRunBesideCompute) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
        Scenario s = replicated(1, 1, 2, ZeroStage::kParameters, granularity);
        s.sequence = Tokens{8192};
        s.policy.n = 8;
        const PlannedStep step = plan_step(s);
        Seconds exchanged{};
        for (const Op& op : step.folded.schedule.ops)
            if (op.lane.kind == LaneKind::kCollective) exchanged += op_time(op, step.folded, s);
        const StepEstimate estimate = estimate_step(step.folded, s);
        EXPECT_LT(estimate.step - estimate.compute[0], exchanged * 0.5);
        EXPECT_GT(exchanged, Seconds{0});
    }
}

}  // namespace
}  // namespace sluice
