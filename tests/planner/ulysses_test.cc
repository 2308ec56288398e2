// Ulysses: what is exchanged, by hand; every form of it valid; all weights on every rank.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "models/activation_inventory.h"
#include "models/rank_memory.h"
#include "planner/lower.h"
#include "planner/search.h"
#include "schedule/schedule_text.h"
#include "schedule/verify.h"
#include "tests/support/golden_file.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

Scenario ulysses(std::int64_t sp, std::int64_t pp, std::int64_t n, Granularity granularity = Granularity::kLayer) {
    Scenario s = small_scenario(sp, pp, n);
    s.sequence = Tokens{1024};
    s.policy.sp_kind = SequenceParallelKind::kUlysses;
    s.policy.granularity = granularity;
    return s;
}

std::string first_problem(const Schedule& schedule) {
    const Diagnostics diagnostics = verify(schedule);
    return diagnostics.empty() ? "" : diagnostics.front().rule + ": " + diagnostics.front().message;
}

void expect_valid(const Scenario& s) {
    const Lowered lowered = lower(s);
    ASSERT_TRUE(lowered.feasible()) << lowered.reasons.front();
    ASSERT_EQ(first_problem(lowered.schedule), "")
        << "sp " << s.policy.sp << " pp " << s.policy.pp << " dp " << s.policy.dp << " n " << s.policy.n;
}

TEST(Ulysses, EveryFormIsValid) {
    for (const std::int64_t sp : {2, 4, 8})
        for (const std::int64_t pp : {1, 2, 4})
            for (const std::int64_t n : {1, 3, 7})
                for (const Granularity granularity : {Granularity::kStage, Granularity::kLayer})
                    for (const PlacementPolicy& placement :
                         {PlacementPolicy{KeepAll{}}, PlacementPolicy{OffloadAll{}}, PlacementPolicy{OffloadRatio{0.3}},
                          PlacementPolicy{RecomputeAll{}}, PlacementPolicy{ThreeWay{}}}) {
                        Scenario s = ulysses(sp, pp, n, granularity);
                        s.policy.placement = placement;
                        ASSERT_NO_FATAL_FAILURE(expect_valid(s));
                    }
}

TEST(Ulysses, EveryFormIsValidWithReplicas) {
    for (const TraversalOrder order : {TraversalOrder::kSubsequenceMajor, TraversalOrder::kLayerMajor})
        for (const ZeroStage zero :
             {ZeroStage::kNone, ZeroStage::kOptimizer, ZeroStage::kGradients, ZeroStage::kParameters})
            for (const PlacementPolicy& placement : {PlacementPolicy{OffloadAll{}}, PlacementPolicy{RecomputeAll{}}}) {
                Scenario s = ulysses(2, 1, 3);
                s.cluster.gpus_per_node = 4, s.policy.dp = 2, s.batch = 4;
                s.policy.zero = zero, s.policy.order = order, s.policy.placement = placement;
                ASSERT_NO_FATAL_FAILURE(expect_valid(s));
            }
}

// Collectives of one rank: (kind, phase, function) -> calls, bytes of each.
using Calls = std::map<std::tuple<std::string, std::string, std::string>, std::pair<std::int64_t, std::int64_t>>;

Calls collectives_of_rank_0(const Schedule& schedule) {
    Calls calls;
    for (const Op& op : schedule.ops) {
        const auto* work = std::get_if<Collective>(&op.work);
        if (work == nullptr || op.rank != Rank{0}) continue;
        auto& [count, bytes] =
            calls[{std::string(name(work->kind)), std::string(name(op.tag.phase)), std::string(name(op.tag.function))}];
        count += work->calls;
        EXPECT_TRUE(bytes == 0 || bytes == work->bytes.value) << "subsequences of one length";
        bytes = work->bytes.value;
    }
    return calls;
}

// Four layers, hidden 256, 8 heads of 32 over 4 K/V heads, two subsequences of 512 tokens over two ranks: 256 rows of a
// rank. Queries 256 x 8 x 32 x 2 B = 131,072 B, keys and values 256 x 2 x 4 x 32 x 2 B = 131,072 B.
TEST(Ulysses, ExchangesQueriesKeysAndValuesAndOutputs) {
    Scenario s = ulysses(2, 1, 2);
    s.model.kv_heads = 4;
    s.policy.partition.kind = PartitionKind::kEqual;
    s.policy.placement = KeepAll{};
    const std::int64_t query = 131072, kv = 131072, parameters = model_parameters(s);
    const Calls kept{{{"all_to_all", "forward", "qkv"}, {8, query + kv}},
                     {{"all_to_all", "forward", "attention"}, {8, query}},
                     {{"all_to_all", "backward", "attention"}, {8, query}},
                     {{"all_to_all", "backward", "projection"}, {8, query}},
                     {{"all_to_all", "backward", "qkv"}, {8, query + kv}},
                     {{"all_reduce", "optimizer", "replicated"}, {1, 4 * parameters}},
                     {{"all_reduce", "optimizer", "gradient_norm"}, {1, 8}}};
    EXPECT_EQ(collectives_of_rank_0(lower(s).schedule), kept);
    s.policy.placement = RecomputeAll{};
    Calls recomputed = kept;
    recomputed[{"all_to_all", "recompute", "query"}] = {8, query};
    EXPECT_EQ(collectives_of_rank_0(lower(s).schedule), recomputed);
}

std::map<std::string, std::int64_t> exchanged_bytes(const Schedule& schedule) {
    std::map<std::string, std::int64_t> bytes;
    for (const Op& op : schedule.ops)
        if (const auto* work = std::get_if<Collective>(&op.work); work != nullptr && op.rank == Rank{0})
            bytes[std::string(name(op.tag.phase))] += work->bytes.value * work->calls;
    return bytes;
}

TEST(Ulysses, StagesExchangeWhatTheirLayersDo) {
    for (const PlacementPolicy& placement : {PlacementPolicy{KeepAll{}}, PlacementPolicy{RecomputeAll{}}}) {
        Scenario s = ulysses(4, 2, 3);
        s.policy.placement = placement;
        const std::map<std::string, std::int64_t> by_layer = exchanged_bytes(lower(s).schedule);
        s.policy.granularity = Granularity::kStage;
        EXPECT_EQ(exchanged_bytes(lower(s).schedule), by_layer);
    }
}

Bytes bytes_of(const Schedule& schedule, BufferKind kind, Rank rank) {
    Bytes sum{};
    for (const Buffer& b : schedule.buffers)
        if (b.kind == kind && b.rank == rank && b.space == Space::kDevice) sum += b.bytes;
    return sum;
}

TEST(Ulysses, EveryRankHoldsAllWeights) {
    const Scenario s = ulysses(4, 1, 3);
    const Schedule schedule = lower(s).schedule;
    const std::int64_t parameters = model_parameters(s);
    for (std::size_t r = 0; r < 4; ++r) {
        EXPECT_EQ(bytes_of(schedule, BufferKind::kWeights, id_at<Rank>(r)), Bytes{2 * parameters});
        EXPECT_EQ(bytes_of(schedule, BufferKind::kGrads, id_at<Rank>(r)), Bytes{4 * parameters});
        EXPECT_EQ(bytes_of(schedule, BufferKind::kOptimizer, id_at<Rank>(r)), Bytes{12 * parameters});
    }
}

// Activations, K and V and their gradients are shared out as with Megatron, byte for byte.
TEST(Ulysses, ActivationsAreThoseOfMegatron) {
    Scenario s = ulysses(4, 1, 3);
    s.policy.placement = KeepAll{};
    const Schedule exchanged = lower(s).schedule;
    s.policy.sp_kind = SequenceParallelKind::kMegatron;
    const Schedule gathered = lower(s).schedule;
    for (const BufferKind kind : {BufferKind::kActivation, BufferKind::kKv, BufferKind::kDkv, BufferKind::kStaging})
        EXPECT_EQ(bytes_of(exchanged, kind, Rank{1}), bytes_of(gathered, kind, Rank{1})) << name(kind);
    // Of all 1024 tokens: q and output 1024 / 4 x 256 x 2 B, k and v twice that; forward q, kv, output, backward these, dq
    // and dkv. Megatron: two and three times 1024 x 256 x 2 B. And the norm of the gradients.
    EXPECT_EQ(bytes_of(exchanged, BufferKind::kComm, Rank{1}), Bytes{5 * 131072 + 3 * 262144 + 8});
    EXPECT_EQ(bytes_of(gathered, BufferKind::kComm, Rank{1}), Bytes{5 * 524288 + 8});
}

TEST(Ulysses, OneRankIsAsWithMegatron) {
    Scenario s = ulysses(1, 2, 3);
    const Schedule one = lower(s).schedule;
    s.policy.sp_kind = SequenceParallelKind::kMegatron;
    EXPECT_EQ(one, lower(s).schedule);
}

TEST(Ulysses, SearchKeepsTheKind) {
    Scenario s = ulysses(1, 1, 4, Granularity::kStage);
    s.cluster.gpus_per_node = 8;
    s.model.kv_heads = 4, s.model.vocabulary = 1021;  // a prime: nobody shares it out
    s.policy.automatic.sp = s.policy.automatic.pp = s.policy.automatic.alignment = true;
    std::map<std::int64_t, std::string> impossible;
    for (const Candidate& c : search(s)) {
        EXPECT_EQ(c.scenario.policy.sp_kind, SequenceParallelKind::kUlysses);
        impossible[c.scenario.policy.sp] = c.verdict == Verdict::kImpossible ? c.reason : "";
    }
    EXPECT_EQ(impossible,
              (std::map<std::int64_t, std::string>{
                  {1, "8 stages for 4 layers"}, {2, ""}, {4, ""}, {8, "sp 8 does not divide the 4 KV heads"}}));
}

TEST(Ulysses, GoldenSchedule) {
    Scenario s = ulysses(2, 1, 2);
    s.model.layers = 1;
    s.policy.placement = OffloadAll{};
    expect_golden("schedules/ulysses.txt", to_text(lower(s).schedule));
}

}  // namespace
}  // namespace sluice
