// Cross-entropy on the device against the CPU's.
#include <cmath>
#include <limits>

#include "runtime/cpu/vocabulary_loss.h"
#include "runtime/cuda/vocabulary_loss.h"
#include "tests/runtime/cuda/device_matrix.h"

namespace sluice::cuda {
namespace {

constexpr Tokens kTotal{1000};

struct Case {
    std::int64_t tokens;
    VocabularyShard shard;
};
// odd counts, shards that hold no target, one that is empty, sizes of vocabularies in use
const Case kCases[] = {
    {5, {1, 0, 1}},         {9, {50, 20, 3}},       {3, {4096, 4096, 0}},        {4, {2055, 0, 2055}},
    {7, {32000, 0, 32000}}, {3, {50257, 0, 50257}}, {2, {128256, 64128, 64128}}, {2, {262144, 0, 262144}},
    {300, {97, 0, 97}}};

class LossKernels : public LibraryOnDevice {};

struct Chunk {
    Case c;
    Fp32OnDevice logits;
    std::vector<TokenId> targets;
    DeviceArray<TokenId> device_targets;

    Chunk(const Case& what, Layout layout)
        : c(what),
          logits(PaddedTensor::random(c.tokens, c.shard.count, 1, 20), layout),
          targets(some_targets(c)),
          device_targets(targets) {}
    static std::vector<TokenId> some_targets(const Case& c) {
        std::mt19937 random(3);
        std::vector<TokenId> all;
        for (std::int64_t t = 0; t < c.tokens; ++t)
            all.push_back(static_cast<TokenId>(random() % static_cast<std::uint32_t>(c.shard.vocabulary)));
        // the ends of the shard, and the id just before it
        if (c.shard.count > 0) all[0] = static_cast<TokenId>(c.shard.first + c.shard.count - 1);
        if (c.tokens > 1 && c.shard.first > 0) all[1] = static_cast<TokenId>(c.shard.first - 1);
        return all;
    }
    std::vector<LossPartial> reference() const {
        std::vector<LossPartial> all(static_cast<std::size_t>(c.tokens));
        EXPECT_EQ(sluice::loss_partials(logits.values(), targets, c.shard, all), std::nullopt);
        return all;
    }
};

TEST_F(LossKernels, PartialsAgreeWithTheCpu) {
    for (const Case& c : kCases)
        for (const Layout& layout : {kGapless, Layout{4, 4}, kOdd}) {
            const Chunk chunk(c, layout);
            const DeviceArray<LossPartial> partials(static_cast<std::size_t>(c.tokens));
            loss_partials(nullptr, chunk.logits.view(), chunk.device_targets.data(), c.shard, partials.data());
            const std::vector<LossPartial> want = chunk.reference(), got = partials.download();
            for (std::size_t t = 0; t < want.size(); ++t) {
                EXPECT_EQ(got[t].maximum, want[t].maximum) << c.shard.count;
                EXPECT_EQ(got[t].target, want[t].target) << c.shard.count;
                EXPECT_NEAR(got[t].sum, want[t].sum, 1e-5F * want[t].sum) << c.shard.count;
            }
            EXPECT_TRUE(partials.guard_intact());
        }
}

TEST_F(LossKernels, CombinedPartialsAgreeWithTheCpuAndRepeatBitByBit) {
    for (const std::int64_t shards : {1, 3, 8})
        for (const std::int64_t tokens : {1, 255, 5000}) {
            std::vector<LossPartial> partials;
            UniformFloats next(5);
            for (std::int64_t i = 0; i < shards * tokens; ++i)
                partials.push_back({20 * next(), 2 + next(), i / tokens == i % shards ? 10 * next() : 0.0F});
            // one shard is empty, as the last of a vocabulary can be
            for (std::int64_t t = 0; shards > 1 && t < tokens; ++t)
                partials[static_cast<std::size_t>((shards - 1) * tokens + t)] = {
                    -std::numeric_limits<float>::infinity(), 0, 0};
            std::vector<float> want(static_cast<std::size_t>(tokens));
            const double loss = sluice::combine_loss_partials(partials, shards, want);

            const DeviceArray<LossPartial> device(partials);
            const DeviceArray<float> log_sum_exp(want.size());
            std::vector<double> sums;
            for (int time = 0; time < 2; ++time) {
                const DeviceArray<double> sum(std::vector<double>{3});
                combine_loss_partials(nullptr, device.data(), shards, tokens, log_sum_exp.data(), sum.data());
                sums.push_back(sum.download()[0]);
            }
            const std::vector<float> got = log_sum_exp.download();
            for (std::size_t t = 0; t < want.size(); ++t) EXPECT_NEAR(got[t], want[t], 4e-6F);
            // each token's is rounded to fp32 first: 2^-20 of 16
            EXPECT_NEAR(sums[0], loss + 3, 1e-6 * static_cast<double>(tokens) + 1e-9);
            EXPECT_EQ(sums[0], sums[1]);
        }
}

TEST_F(LossKernels, GradientAgreesWithTheCpu) {
    for (const Case& c : kCases)
        for (const Layout& layout : {kGapless, Layout{4, 4}, kOdd}) {
            Chunk chunk(c, layout);
            const std::vector<LossPartial> partials = chunk.reference();
            std::vector<float> log_sum_exp(partials.size());
            sluice::combine_loss_partials(partials, 1, log_sum_exp);
            if (c.shard.count == 0) log_sum_exp.assign(log_sum_exp.size(), 1);
            PaddedTensor want(c.tokens, c.shard.count);
            for (std::int64_t t = 0; t < c.tokens; ++t)
                std::copy_n(chunk.logits.values().row(t), c.shard.count, want.view().row(t));
            sluice::logits_gradient(log_sum_exp, chunk.targets, c.shard, kTotal, want.view());

            const DeviceArray<float> device_sums(log_sum_exp);
            const Fp32Matrix logits = chunk.logits.view();
            const Bf16Matrix gradient =
                logits_gradient(nullptr, device_sums.data(), chunk.device_targets.data(), c.shard, kTotal, logits);
            EXPECT_EQ(static_cast<const void*>(gradient.data), static_cast<const void*>(logits.data));
            EXPECT_EQ(gradient.stride, 2 * logits.stride);
            ASSERT_TRUE(same_shape(gradient, logits));
            PaddedTensor got(c.tokens, c.shard.count);
            for (std::int64_t t = 0; t < c.tokens && c.shard.count > 0; ++t) {
                std::vector<Bf16> row(static_cast<std::size_t>(c.shard.count));
                must(cudaMemcpy(row.data(), gradient.row(t), row.size() * sizeof(Bf16), cudaMemcpyDeviceToHost), "row");
                const std::vector<float> values = floats(row);
                std::copy(values.begin(), values.end(), got.view().row(t));
            }
            // probabilities are within 2^-18 of themselves; beside the target 1 - p cancels
            expect_rounded(got, want, 1e-6 / static_cast<double>(kTotal.value), std::to_string(c.shard.count));
            chunk.logits.download();  // nothing beside the rows was written
        }
}

}  // namespace
}  // namespace sluice::cuda
