#include "planner/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "models/activation_inventory.h"
#include "models/kernel_cost.h"
#include "models/model_flops.h"
#include "models/rank_memory.h"
#include "schedule/schedule_text.h"
#include "schedule/verify.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

std::string first_problem(const Schedule& schedule) {
    const Diagnostics diagnostics = verify(schedule);
    return diagnostics.empty() ? "" : diagnostics.front().rule + ": " + diagnostics.front().message;
}

Bytes copied(const Schedule& schedule, LaneKind lane) {
    Bytes sum{};
    for (const Op& op : schedule.ops)
        if (op.lane.kind == lane) sum += std::get<Copy>(op.work).bytes;
    return sum;
}

Bytes arena(const Schedule& schedule, Space space, Rank rank) {
    Bytes end{};
    for (const Buffer& b : schedule.buffers)
        if (b.space == space && b.rank == rank && b.offset) end = std::max(end, *b.offset + b.bytes);
    return end;
}

struct ShardKind {
    SequenceParallelKind kind;
    SavedInputs inputs;
};

Scenario with_memory(Scenario s, Bytes memory) {
    s.cluster.gpu.memory = memory;
    return s;
}

// Every combination of degrees, granularity and placement lowers to a valid schedule.
TEST(Lower, SmallScenariosAreValid) {
    for (const std::int64_t sp : {1, 2, 4})
        for (const std::int64_t pp : {1, 2, 4})
            for (const std::int64_t n : {1, 2, 3, 7})
                for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
                    for (const PlacementPolicy& placement :
                         {PlacementPolicy{KeepAll{}}, PlacementPolicy{OffloadAll{}}, PlacementPolicy{OffloadRatio{0.3}},
                          PlacementPolicy{RecomputeAll{}}, PlacementPolicy{ThreeWay{}}}) {
                        Scenario s = small_scenario(sp, pp, n);
                        s.sequence = Tokens{1024};
                        s.policy.granularity = granularity;
                        s.policy.placement = placement;
                        const Lowered lowered = lower(s);
                        ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
                        ASSERT_EQ(first_problem(lowered.schedule), "") << sp << " " << pp << " " << n;
                        ASSERT_EQ(static_cast<std::int64_t>(lowered.schedule.ranks.size()), sp * pp);
                    }
}

constexpr ShardKind kShardKinds[] = {{SequenceParallelKind::kMegatron, SavedInputs::kShard},
                                     {SequenceParallelKind::kMegatron, SavedInputs::kGathered},
                                     {SequenceParallelKind::kUlysses, SavedInputs::kShard}};

TEST(Lower, LeanInventoryIsValid) {
    for (const ShardKind kind : kShardKinds)
        for (const std::int64_t sp : {1, 2})
            for (const std::int64_t pp : {1, 2})
                for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
                    for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor})
                        for (const PlacementPolicy& placement :
                             {PlacementPolicy{KeepAll{}}, PlacementPolicy{OffloadAll{}},
                              PlacementPolicy{OffloadRatio{0.3}}, PlacementPolicy{RecomputeAll{}},
                              PlacementPolicy{ThreeWay{}}}) {
                            if (order == TraversalOrder::kLayerMajor && (pp > 1 || granularity == Granularity::kStage))
                                continue;
                            Scenario s = small_scenario(sp, pp, 3);
                            s.policy.inventory = Inventory::kLean;
                            s.policy.sp_kind = kind.kind, s.policy.saved_inputs = kind.inputs;
                            s.policy.granularity = granularity, s.policy.order = order;
                            s.policy.placement = placement;
                            const Lowered lowered = lower(s);
                            ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
                            ASSERT_EQ(first_problem(lowered.schedule), "")
                                << sp << " " << pp << " " << placement.index();
                        }
}

// Whole layers made again: the same combinations, K and V on the host among them.
TEST(Lower, RecomputedLayersAreValid) {
    for (const ShardKind kind : kShardKinds)
        for (const std::int64_t sp : {1, 2})
            for (const std::int64_t pp : {1, 2})
                for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
                    for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor})
                        for (const Inventory inventory : {Inventory::kRuntime, Inventory::kLean})
                            for (const PlacementPolicy& placement :
                                 {PlacementPolicy{RecomputeAll{}}, PlacementPolicy{ThreeWay{}}}) {
                                if (order == TraversalOrder::kLayerMajor &&
                                    (pp > 1 || granularity == Granularity::kStage))
                                    continue;
                                Scenario s = small_scenario(sp, pp, 3);
                                s.policy.recompute = RecomputeScope::kLayer;
                                s.policy.sp_kind = kind.kind, s.policy.saved_inputs = kind.inputs;
                                s.policy.granularity = granularity, s.policy.order = order;
                                s.policy.inventory = inventory, s.policy.placement = placement;
                                const Lowered lowered = lower(s);
                                ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
                                ASSERT_EQ(first_problem(lowered.schedule), "")
                                    << sp << " " << pp << " " << placement.index();
                            }
}

std::map<std::string, int> made_again(const Schedule& schedule) {
    std::map<std::string, int> ops;
    for (const Op& op : schedule.ops)
        if (op.tag.phase == Phase::kRecompute) ++ops[std::string(name(op.tag.function))];
    return ops;
}

// G for a product, P for a pointwise kernel: of the first of these ops.
std::string mlp_backward_kernels(const Schedule& schedule) {
    for (const Op& op : schedule.ops) {
        if (op.tag.phase != Phase::kBackward || op.tag.function != Function::kMlp) continue;
        std::string kernels;
        for (const Kernel& kernel : std::get<Compute>(op.work).kernels)
            kernels += std::holds_alternative<Gemm>(kernel.shape) ? 'G' : 'P';
        return kernels;
    }
    return {};
}

// Units without what pointwise kernels give, which has one layer's bytes at a time: backward makes norms again from the
// unit, and the activation in the pass over its gradient, before the product that reads it.
TEST(Lower, LeanInventoryMakesItsTensorsAgain) {
    Scenario s = small_scenario(1, 1, 4);
    s.policy.granularity = Granularity::kLayer;
    s.policy.partition.kind = PartitionKind::kEqual;
    s.policy.placement = KeepAll{};
    const Lowered runtime = lower(s);
    EXPECT_TRUE(made_again(runtime.schedule).empty());
    s.policy.inventory = Inventory::kLean;
    const Lowered lean = lower(s);
    const int units = static_cast<int>(s.model.layers) * 4;
    EXPECT_EQ(made_again(lean.schedule), (std::map<std::string, int>{{"norms", units}}));
    EXPECT_EQ(mlp_backward_kernels(runtime.schedule), "GGPG");
    EXPECT_EQ(mlp_backward_kernels(lean.schedule), "GPGG");
    const Bytes transient = transient_bytes(s, runtime.plan.subsequences.front());
    // Most live when all layers' dK and dV are there first: in the lowest layer's backward of the last subsequence.
    // Then there are its unit and those of three subsequences before, and its transient tensors.
    EXPECT_EQ(
        arena(runtime.schedule, Space::kDevice, id_at<Rank>(0)) - arena(lean.schedule, Space::kDevice, id_at<Rank>(0)),
        transient * (units - 3 - 1));
    s.policy.placement = RecomputeAll{};
    EXPECT_EQ(made_again(lower(s).schedule),
              (std::map<std::string, int>{{"norms", units}, {"mlp", units}, {"query", units}}));
}

Flops attention_flops(const Schedule& schedule, Phase phase) {
    Flops sum{};
    for (const Op& op : schedule.ops) {
        const auto* work = std::get_if<Compute>(&op.work);
        if (work == nullptr || op.tag.phase != phase) continue;
        for (const Kernel& kernel : work->kernels)
            if (const auto* attention = std::get_if<Attention>(&kernel.shape))
                sum += flops(*attention) * static_cast<double>(kernel.count);
    }
    return sum;
}

Bytes activations_of_forward(const Schedule& schedule) {
    Bytes sum{};
    std::set<std::uint32_t> counted;
    for (const Op& op : schedule.ops)
        for (const Access& access : op.accesses) {
            const Buffer& buffer = schedule.buffers[index(access.buffer)];
            const bool saved = !buffer.tensors.empty() && buffer.tensors.front().tensor == Tensor::kBlockInput;
            if (saved && counted.insert(static_cast<std::uint32_t>(index(buffer.id))).second) sum += buffer.bytes;
        }
    return sum;
}

// What a recomputed layer keeps is its block input; backward runs forward's attention once more, and K and V are not
// made again.
TEST(Lower, RecomputedLayersKeepTheirBlockInputsAlone) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
        for (const SequenceParallelKind kind : {SequenceParallelKind::kMegatron, SequenceParallelKind::kUlysses}) {
            Scenario s = small_scenario(2, 1, 4);
            s.policy.granularity = granularity, s.policy.sp_kind = kind;
            s.policy.placement = RecomputeAll{}, s.policy.recompute = RecomputeScope::kLayer;
            const Lowered lowered = lower(s);
            EXPECT_EQ(attention_flops(lowered.schedule, Phase::kRecompute),
                      attention_flops(lowered.schedule, Phase::kForward));
            for (const Op& op : lowered.schedule.ops)
                for (const Access& access : op.accesses)
                    EXPECT_TRUE(op.tag.phase != Phase::kRecompute || access.mode == AccessMode::kRead ||
                                lowered.schedule.buffers[index(access.buffer)].kind != BufferKind::kKv)
                        << index(op.id);
        }
    Scenario s = small_scenario(1, 1, 4);
    s.policy.granularity = Granularity::kLayer;
    s.policy.placement = RecomputeAll{}, s.policy.recompute = RecomputeScope::kLayer;
    const int units = static_cast<int>(s.model.layers) * 4;
    for (const Inventory inventory : {Inventory::kRuntime, Inventory::kLean}) {
        s.policy.inventory = inventory;
        const Lowered lowered = lower(s);
        EXPECT_EQ(
            made_again(lowered.schedule),
            (std::map<std::string, int>{{"norm1", units}, {"attention", units}, {"norm2", units}, {"mlp", units}}));
        EXPECT_EQ(activations_of_forward(lowered.schedule),
                  size_of(s.precision.weights) * (s.model.layers * s.sequence.value * s.model.hidden));
    }
}

// Layer-major: valid, the same work, and K and V do not wait for other layers: dK and dV of one layer live at a time.
TEST(Lower, LayerMajorOrder) {
    for (const std::int64_t sp : {1, 2})
        for (const std::int64_t n : {1, 2, 5})
            for (const PlacementPolicy& placement :
                 {PlacementPolicy{KeepAll{}}, PlacementPolicy{OffloadAll{}}, PlacementPolicy{AdaptiveOffload{}},
                  PlacementPolicy{RecomputeAll{}}, PlacementPolicy{ThreeWay{}}}) {
                Scenario s = small_scenario(sp, 1, n);
                s.policy.granularity = Granularity::kLayer;
                s.policy.placement = placement;
                const Lowered by_subsequence = lower(s);
                s.policy.order = TraversalOrder::kLayerMajor;
                s.batch = 2;
                const Lowered lowered = lower(s);
                ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
                ASSERT_EQ(first_problem(lowered.schedule), "") << sp << " " << n;
                s.batch = 1;
                const Lowered one = lower(s);
                double flops_by_layer = 0, flops_by_subsequence = 0;
                for (const Lowered* l : {&one, &by_subsequence})
                    for (const Op& op : l->schedule.ops)
                        if (const auto* compute = std::get_if<Compute>(&op.work))
                            for (const Kernel& kernel : compute->kernels)
                                (l == &one ? flops_by_layer : flops_by_subsequence) +=
                                    flops(kernel.shape).value * kernel.count;
                EXPECT_NEAR(flops_by_layer, flops_by_subsequence, 1e-9 * flops_by_layer);
            }
    Scenario s = small_scenario(1, 1, 8);
    s.policy.granularity = Granularity::kLayer;
    s.policy.placement = OffloadAll{};
    const Bytes by_subsequence = arena(lower(s).schedule, Space::kDevice, id_at<Rank>(0));
    s.policy.order = TraversalOrder::kLayerMajor;
    const Bytes by_layer = arena(lower(s).schedule, Space::kDevice, id_at<Rank>(0));
    // three of four layers' dK and dV: 2 x 4 bytes x 8192 tokens x 256 each; the residual streams cost some of it
    EXPECT_LT(by_layer, by_subsequence - Bytes{2 * 2 * 4 * 8192 * 256});
}

// K and V of some layers on the host: valid in both orders, and less on the GPU; all that goes out comes back.
TEST(Lower, KvOnTheHostWhenNothingElseFits) {
    for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor})
        for (const std::int64_t sp : {1, 2})
            for (const std::int64_t n : {2, 6})
                for (const PlacementPolicy& placement : {PlacementPolicy{OffloadAll{}}, PlacementPolicy{ThreeWay{}}}) {
                    Scenario s = small_scenario(sp, 1, n);
                    s.model.layers = 8;
                    s.policy.order = order;
                    s.policy.granularity = Granularity::kLayer;
                    s.policy.placement = placement;
                    s.policy.kv = KvPlacement::kOffload;
                    s.batch = 2;
                    const Lowered ample = lower(s);
                    ASSERT_TRUE(ample.feasible());
                    Bytes kv{};  // nothing of it moves while there is room
                    for (const Op& op : ample.schedule.ops)
                        if (std::holds_alternative<Copy>(op.work))
                            for (const Access& a : op.accesses) {
                                const BufferKind kind = ample.schedule.buffers[index(a.buffer)].kind;
                                if (kind == BufferKind::kKv || kind == BufferKind::kDkv) kv += 1_B;
                            }
                    EXPECT_EQ(kv, 0_B);
                    s.policy.kv = KvPlacement::kResident;
                    Bytes least = arena(ample.schedule, Space::kDevice, id_at<Rank>(0)), most = least;
                    for (least = 0_B; most - least > 1_MiB;) {
                        const Bytes middle = least + (most - least) / 2;
                        (plan_step(with_memory(s, middle)).feasible() ? most : least) = middle;
                    }
                    s.policy.kv = KvPlacement::kOffload;
                    const Lowered tight = lower(with_memory(s, least - 1_MiB));
                    ASSERT_TRUE(tight.feasible()) << sp << " " << n << " " << tight.reasons.front();
                    EXPECT_EQ(first_problem(tight.schedule), "") << sp << " " << n;
                    EXPECT_GT(tight.plan.stages.front().kv_offloaded, 0);
                    EXPECT_LE(arena(tight.schedule, Space::kDevice, id_at<Rank>(0)), least - 1_MiB);
                }
}

// The traversal order's windows: every unit but the very last has one.
TEST(Lower, LayerMajorWindows) {
    Scenario s = small_scenario(1, 1, 4);
    s.policy.granularity = Granularity::kLayer;
    s.policy.order = TraversalOrder::kLayerMajor;
    const Lowered lowered = lower(s);
    const StagePlan& stage = lowered.plan.stages.front();
    ASSERT_EQ(stage.window.size(), 16U);
    for (std::size_t k = 0; k < 16; ++k) EXPECT_EQ(stage.window[k].value == 0, k == 15) << k;
}

TEST(Lower, OtherModelsAndBatches) {
    Scenario s = small_scenario();
    s.model.activation = ActivationFunction::kSwiglu;
    s.model.norm = Norm::kRmsNorm;
    s.model.kv_heads = 2;
    s.model.bias = false;
    s.model.tied_embeddings = false;
    s.model.layers = 5;  // uneven stages
    s.batch = 3;
    s.policy.placement = OffloadRatio{0.5};
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
        s.policy.granularity = granularity;
        const Lowered lowered = lower(s);
        ASSERT_TRUE(lowered.feasible());
        EXPECT_EQ(first_problem(lowered.schedule), "");
        EXPECT_EQ(lowered.plan.stages[0].layers, 3);
        EXPECT_EQ(lowered.plan.stages[1].layers, 2);
    }
}

// The GEMM and attention FLOPs of a lowered step are those of the model: three times forward, nothing lost or doubled
// by partition, sharding or granularity.
TEST(Lower, WorkIsTheModels) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
        for (const std::int64_t n : {1, 5}) {
            Scenario s = small_scenario(2, 2, n);
            s.policy.granularity = granularity;
            s.batch = 2;
            const Lowered lowered = lower(s);
            double gemm = 0, forward = 0, backward = 0;
            for (const Op& op : lowered.schedule.ops)
                if (const auto* compute = std::get_if<Compute>(&op.work))
                    for (const Kernel& kernel : compute->kernels) {
                        const double work = flops(kernel.shape).value * kernel.count;
                        if (std::holds_alternative<Gemm>(kernel.shape)) gemm += work;
                        if (const auto* a = std::get_if<Attention>(&kernel.shape))
                            (a->pass == Pass::kForward ? forward : backward) += work;
                    }
            const double model = step_model_flops(s).value;
            // the attention backward does five products for the model's four
            EXPECT_NEAR(gemm + forward + backward * 4 / 5, model, 1e-9 * model);
            EXPECT_NEAR(backward, 2.5 * forward, 1e-9 * backward);
        }
}

TEST(Lower, AmpleMemoryOffloadsNothing) {
    const Lowered lowered = lower(small_scenario());
    EXPECT_EQ(copied(lowered.schedule, LaneKind::kCopyOut), 0_B);
    for (const StagePlan& stage : lowered.plan.stages)
        for (const Bytes x : stage.offloaded) EXPECT_EQ(x, 0_B);
}

TEST(Lower, WhatGoesOutComesBack) {
    Scenario s = small_scenario(2, 2, 6);
    s.policy.placement = OffloadRatio{0.4};
    s.policy.granularity = Granularity::kLayer;
    const Lowered lowered = lower(s);
    Bytes planned{};
    for (const StagePlan& stage : lowered.plan.stages)
        for (const Bytes x : stage.offloaded) planned += x * s.policy.sp;
    EXPECT_EQ(copied(lowered.schedule, LaneKind::kCopyOut), planned);
    EXPECT_EQ(copied(lowered.schedule, LaneKind::kCopyIn), planned);
    for (const Op& op : lowered.schedule.ops) {
        if (op.lane.kind != LaneKind::kCopyOut && op.lane.kind != LaneKind::kCopyIn) continue;
        EXPECT_EQ(op.tag.phase, op.lane.kind == LaneKind::kCopyOut ? Phase::kForward : Phase::kBackward);
    }
}

// Memory below what is needed: adaptive moves as little as that demands, and moving a little less of any subsequence no
// longer fits.
TEST(Lower, AdaptiveMovesAsLittleAsMemoryDemands) {
    for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer}) {
        Scenario s = small_scenario(2, 2, 6);
        s.policy.granularity = granularity;
        const Lowered ample = lower(s);
        const Bytes whole = arena(ample.schedule, Space::kDevice, id_at<Rank>(2));
        s = with_memory(s, whole - 12_MiB);
        const Lowered tight = lower(s);
        ASSERT_TRUE(tight.feasible()) << tight.reasons.front();
        EXPECT_EQ(first_problem(tight.schedule), "");
        EXPECT_LE(arena(tight.schedule, Space::kDevice, id_at<Rank>(2)), s.cluster.gpu.usable());
        // Layer by layer whole tensors are moved, of what is decided here and of what is given below: each up to one
        // row of hidden values per token and layer more, 700 KiB.
        const Bytes little = granularity == Granularity::kLayer ? 2_MiB : 64_KiB;
        std::vector<std::vector<Bytes>> amounts;
        Bytes moved{};
        for (const StagePlan& stage : tight.plan.stages) {
            amounts.push_back(stage.offloaded);
            for (const Bytes x : stage.offloaded) moved += x;
        }
        EXPECT_GT(moved, 0_B);
        for (std::size_t stage = 0; stage < amounts.size(); ++stage)
            for (std::size_t i = 0; i < amounts[stage].size(); ++i) {
                if (amounts[stage][i].value == 0) continue;
                std::vector<std::vector<Bytes>> less = amounts;
                less[stage][i] = std::max(0_B, less[stage][i] - little);
                EXPECT_FALSE(lower_with(s, less).feasible()) << "stage " << stage << " subsequence " << i;
            }
    }
}

TEST(Lower, InfeasibleNamesKindsLimitRanksAndOp) {
    const Lowered gpu = lower(with_memory(small_scenario(), 40_MiB));
    ASSERT_EQ(gpu.reasons.size(), 2U);
    EXPECT_TRUE(gpu.schedule.ops.empty());
    EXPECT_EQ(gpu.reasons[0].rfind("ranks 0-1 (stage 0): ", 0), 0U) << gpu.reasons[0];
    for (const char* part :
         {" of GPU memory needed, 40.0 MiB usable; most live at op ", "(backward ", "dkv 16.0 MiB", "kv 8.00 MiB"})
        EXPECT_NE(gpu.reasons[0].find(part), std::string::npos) << gpu.reasons[0];

    Scenario s = small_scenario();
    s.policy.placement = OffloadAll{};
    s.cluster.host.memory = 32_MiB;
    const Lowered host = lower(s);
    ASSERT_EQ(host.reasons.size(), 1U);
    EXPECT_EQ(host.reasons[0].rfind("node 0: ", 0), 0U) << host.reasons[0];
    EXPECT_NE(host.reasons[0].find("of host memory needed for the offloaded activations of ranks 0-3, 32.0 MiB usable"),
              std::string::npos)
        << host.reasons[0];
}

TEST(Lower, RefusesSchedulesBeyondItsSize) {
    Scenario s = small_scenario(2, 2, 65536);
    s.sequence = Tokens{1 << 20};
    s.batch = 64;
    s.policy.granularity = Granularity::kLayer;
    const Lowered lowered = lower(s);
    ASSERT_EQ(lowered.reasons.size(), 1U);
    EXPECT_EQ(lowered.reasons[0],
              "the schedule would have up to 973 million ops, more than the 17 million that are handled; use fewer "
              "subsequences or granularity stage");
}

TEST(Lower, SameInputsSameSchedule) {
    Scenario s = small_scenario(2, 2, 5);
    s.policy.placement = OffloadRatio{0.7};
    EXPECT_EQ(to_text(lower(s).schedule), to_text(lower(s).schedule));
}

// Unfolded ranks differ in nothing but whom they talk to, and every group is whole.
TEST(Lower, UnfoldingMakesWholeGroups) {
    const Scenario s = small_scenario(4, 2, 2);
    const Schedule schedule = lower(s).schedule;
    std::multiset<std::size_t> sizes;
    for (const Group& group : schedule.groups) sizes.insert(group.members.size());
    // two sequence-parallel groups of four, all eight ranks, four pairs for the tied embedding
    EXPECT_EQ(sizes, (std::multiset<std::size_t>{2, 2, 2, 2, 4, 4, 8}));
    std::map<std::size_t, std::size_t> ops_of_rank;
    for (const Op& op : schedule.ops) ++ops_of_rank[index(op.rank)];
    for (std::size_t r = 0; r < 8; ++r) EXPECT_EQ(ops_of_rank[r], ops_of_rank[r / 4 * 4]);
}

// dK and dV of a subsequence are complete only when all later ones have contributed: backward runs N-1..0, and every
// backward op of i follows one of i+1 on its compute lane.
TEST(Lower, BackwardRunsFromTheLastSubsequence) {
    const Schedule schedule = lower(small_scenario(2, 2, 5)).schedule;
    std::map<std::size_t, std::int32_t> last;
    for (const Op& op : schedule.ops) {
        if (op.lane.kind != LaneKind::kCompute || op.tag.phase != Phase::kBackward) continue;
        const auto [it, first] = last.try_emplace(index(op.rank), 4);
        EXPECT_LE(op.tag.subsequence, it->second);
        it->second = op.tag.subsequence;
    }
    EXPECT_EQ(last.size(), 4U);
}

}  // namespace
}  // namespace sluice
