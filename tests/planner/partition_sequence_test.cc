#include "planner/partition_sequence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/activation_inventory.h"
#include "models/kernel_cost.h"
#include "models/model_flops.h"
#include "tests/support/small_scenario.h"

namespace sluice {
namespace {

double flops_of(const Scenario& s, Subsequence sub) {
    return layer_forward_flops(s, sub, s.policy.partition.count).value;
}

void expect_covers(const Scenario& s, const std::vector<Subsequence>& cuts) {
    ASSERT_EQ(static_cast<std::int64_t>(cuts.size()), s.policy.n);
    Tokens begin{};
    for (const Subsequence& cut : cuts) {
        EXPECT_EQ(cut.begin, begin);
        EXPECT_GT(cut.length.value, 0);
        EXPECT_EQ(cut.length.value % s.policy.partition.alignment.value, 0);
        begin = cut.end();
    }
    EXPECT_EQ(begin, s.sequence);
}

TEST(PartitionSequence, BalancesFlopsToWithinOneAlignment) {
    for (const std::int64_t n : {1, 2, 3, 7, 16, 64})
        for (const CausalCount count : {CausalCount::kExact, CausalCount::kUncut}) {
            Scenario s = small_scenario(2, 2, n);
            s.sequence = Tokens{131072};
            s.policy.partition.count = count;
            const std::vector<Subsequence> cuts = partition_sequence(s);
            expect_covers(s, cuts);
            double total = 0;
            for (const Subsequence& cut : cuts) total += flops_of(s, cut);
            const Tokens step = s.policy.partition.alignment;
            for (const Subsequence& cut : cuts) {
                // one alignment more or less at either end brackets the mean
                const double slack = flops_of(s, {cut.begin, cut.length + step * 2}) - flops_of(s, cut);
                EXPECT_NEAR(flops_of(s, cut), total / static_cast<double>(n), 1.5 * slack) << n;
            }
        }
}

TEST(PartitionSequence, CausalMaskMakesEarlierSubsequencesLonger) {
    const Scenario s = small_scenario(2, 2, 8);
    const std::vector<Subsequence> cuts = partition_sequence(s);
    for (std::size_t i = 1; i < cuts.size(); ++i) EXPECT_GE(cuts[i - 1].length, cuts[i].length);
    EXPECT_GT(cuts.front().length.value, cuts.back().length.value);
}

TEST(PartitionSequence, CostBalancesSeconds) {
    Scenario s = small_scenario(2, 2, 6);
    s.sequence = Tokens{65536};
    s.policy.partition.kind = PartitionKind::kCost;
    const std::vector<Subsequence> cuts = partition_sequence(s);
    expect_covers(s, cuts);
    const auto seconds = [&](Subsequence sub) {
        double total = 0;
        const LayerForward f = layer_forward(s, sub);
        const LayerBackward b = layer_backward(s, sub);
        for (const KernelChain& chain : {f.norm1, f.attention, f.norm2, f.mlp, f.residual, b.mlp_data, b.mlp_weight,
                                         b.norm2, b.attention_data, b.attention_weight, b.norm1})
            total += compute_time(Compute{chain}, s.calibration).value;
        return total;
    };
    for (const Subsequence& cut : cuts) EXPECT_NEAR(seconds(cut), seconds(cuts.front()), 0.01 * seconds(cuts.front()));
}

TEST(PartitionSequence, EqualAndList) {
    Scenario s = small_scenario(2, 2, 3);
    s.sequence = Tokens{20};
    s.policy.partition.kind = PartitionKind::kEqual;
    std::vector<std::int64_t> lengths;
    for (const Subsequence& cut : partition_sequence(s)) lengths.push_back(cut.length.value);
    EXPECT_EQ(lengths,
              (std::vector<std::int64_t>{8, 6, 6}));  // ten pairs over three: the first takes what is left over
    s.policy.partition.kind = PartitionKind::kList;
    s.policy.partition.lengths = {Tokens{2}, Tokens{14}, Tokens{4}};
    lengths.clear();
    for (const Subsequence& cut : partition_sequence(s)) lengths.push_back(cut.length.value);
    EXPECT_EQ(lengths, (std::vector<std::int64_t>{2, 14, 4}));
}

TEST(PartitionSequence, EveryAlignedUnitItsOwnSubsequence) {
    Scenario s = small_scenario(2, 2, 16);
    s.sequence = Tokens{32};
    expect_covers(s, partition_sequence(s));
}

// SPPO Fig. 5: LLaMA-65B at 128K, sizes of a subsequence's activations on one GPU at 32 bytes per token, hidden unit
// and layer (80 layers over SP 8 x PP 8), read as GiB. Published: 10.59 .. 2.87 for N = 8 and 6.04 .. 1.3 for N = 16.
// They fit a partition that counts attention as if no mask cut it; the exact causal half gives a flatter one.
TEST(PartitionSequence, FigureFiveSizes) {
    Scenario s = read_scenario(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios/sppo-gpt65b-128k-a100x64.yaml");
    const struct {
        std::int64_t n;
        CausalCount count;
        double first, last;
    } cases[] = {{8, CausalCount::kUncut, 10.70, 2.99},
                 {8, CausalCount::kExact, 8.98, 3.28},
                 {16, CausalCount::kUncut, 6.42, 1.46},
                 {16, CausalCount::kExact, 5.00, 1.61}};
    for (const auto& c : cases) {
        s.policy.n = c.n;
        s.policy.partition.count = c.count;
        const std::vector<Subsequence> cuts = partition_sequence(s);
        const auto gib = [&](const Subsequence& cut) {
            return Bytes{32 * cut.length.value * s.model.hidden * 80 / 64} / 1_GiB;
        };
        EXPECT_NEAR(gib(cuts.front()), c.first, 0.01) << c.n;
        EXPECT_NEAR(gib(cuts.back()), c.last, 0.01) << c.n;
    }
}

}  // namespace
}  // namespace sluice
