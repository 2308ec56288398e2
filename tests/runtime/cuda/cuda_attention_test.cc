#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "models/rank_memory.h"
#include "runtime/cuda/attention_graphs.h"
#include "tests/runtime/cuda/device_attention.h"

namespace sluice::cuda {
namespace {

static_assert(AttentionPlans::kKeysAtOnce == kKvGradientChunk, "planned and run with the same parts");

// cuDNN rounds P and dS to bf16 before their second product, and O, dQ, dK, dV when they are written: rounding errors
// of random sign, each of relative size u / sqrt(3) in the mean square, u = 2^-9: 1.1e-3. The parts of dQ, and of dK
// and dV under grouped queries, are rounded once more. So errors are about 2e-3 to 3e-3 (measured on an H200 against
// double: O 2.0e-3, dQ 2.4e-3, dK and dV 2.4e-3 to 2.9e-3), and one tile that is wrong is far above 5e-3.
constexpr double kNormError = 5e-3;
// LSE is formed in fp32 from products of bf16 and written in fp32: of scores below 10 and sums over 5000 keys, 1e-6.
constexpr double kLseError = 1e-4;

class AttentionAgainstCpu : public LibraryOnDevice, public ::testing::WithParamInterface<AttentionInput> {
protected:
    static std::vector<float> gradients_before(bool begins) {
        const AttentionInput& c = GetParam();
        const std::size_t size = size_of(c.keys(), 2 * c.kv_width());
        return begins ? poisoned(size) : random_floats(size, 5, 0.05F);
    }

    static void expect_close(const AttentionValues& got, const AttentionValues& want) {
        const AttentionInput& c = GetParam();
        EXPECT_LE(norm_error(got.out, want.out, c.width(), c.width()), kNormError) << "O";
        // Low scores come from one large column of K; in its column of dQ terms cancel that are 60 times the others'.
        const double cancelled = c.low > 0 ? 4 : 1;
        EXPECT_LE(norm_error(got.dquery, want.dquery, c.width(), c.query_stride()), cancelled * kNormError) << "dQ";
        EXPECT_LE(norm_error(got.dkey_value, want.dkey_value, c.kv_width(), 2 * c.kv_width()), kNormError) << "dK";
        EXPECT_LE(norm_error(got.dkey_value, want.dkey_value, c.kv_width(), 2 * c.kv_width(), c.kv_width()), kNormError)
            << "dV";
        for (std::size_t i = 0; i < got.dquery.size(); ++i)  // what lies between the rows of dQ is not ours
            if (static_cast<std::int64_t>(i) % c.query_stride() >= c.width()) {
                ASSERT_TRUE(std::isnan(got.dquery[i])) << "written between the rows of dQ, element " << i;
            }
        double worst = 0;
        for (std::size_t i = 0; i < want.log_sum_exp.size(); ++i)
            worst = std::max(worst, std::abs(static_cast<double>(got.log_sum_exp[i] - want.log_sum_exp[i])));
        // of scores around -low, whose fp32 neighbours lie that much farther apart
        EXPECT_LE(worst, kLseError * (1 + static_cast<double>(c.low) / 10)) << "LSE";
        EXPECT_TRUE(
            std::none_of(got.log_sum_exp.begin(), got.log_sum_exp.end(), [](float v) { return std::isnan(v); }));
    }

    static void run(bool begins) {
        const std::vector<float> before = gradients_before(begins);
        AttentionOnDevice device(GetParam(), before);
        SCOPED_TRACE(device.choices());
        device.forward();
        device.backward(begins);
        expect_close(device.results(), on_cpu(GetParam(), begins ? std::vector<float>(before.size(), 0) : before));
        EXPECT_TRUE(device.guards_intact());
    }
};

TEST_P(AttentionAgainstCpu, BeginsAccumulators) { run(true); }
TEST_P(AttentionAgainstCpu, AddsToAccumulators) { run(false); }

// The own keys' rows of the accumulators stay as they are; added to them, what is left beside gives the same bits.
TEST_P(AttentionAgainstCpu, LeavesTheOwnGradientsToTheCaller) {
    const AttentionInput& c = GetParam();
    const std::vector<float> before = gradients_before(false);
    AttentionOnDevice adds(c, before), leaves(c, before);
    for (AttentionOnDevice* device : {&adds, &leaves}) {
        device->forward();
        device->backward(false, device == &adds);
    }
    const std::vector<float> want = adds.results().dkey_value, own = leaves.own_gradients();
    const std::size_t in_front = size_of(c.begin, 2 * c.kv_width());
    std::vector<float> got = leaves.results().dkey_value;
    for (std::size_t i = in_front; i < got.size(); ++i) {
        ASSERT_EQ(got[i], before[i]) << "the own keys' accumulators, element " << i - in_front;
        got[i] += own[i - in_front];
    }
    EXPECT_EQ(bits(got), bits(want));
    EXPECT_TRUE(leaves.guards_intact());
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionAgainstCpu,
    ::testing::Values(
        // begin, length, heads, kv_heads, head_dim
        AttentionInput{0, 128, 8, 8, 128}, AttentionInput{0, 128, 8, 2, 128}, AttentionInput{0, 128, 8, 2, 64},
        AttentionInput{0, 7, 8, 2, 128}, AttentionInput{0, 2, 8, 8, 64}, AttentionInput{0, 64, 8, 2, 128},
        AttentionInput{0, 257, 8, 8, 64}, AttentionInput{0, 1024, 8, 2, 128}, AttentionInput{128, 128, 8, 2, 128},
        AttentionInput{128, 128, 8, 8, 64}, AttentionInput{128, 41, 8, 2, 128}, AttentionInput{64, 64, 8, 8, 128},
        AttentionInput{131, 129, 8, 2, 128}, AttentionInput{131, 129, 8, 8, 64}, AttentionInput{7, 5, 8, 2, 64},
        AttentionInput{1000, 2, 8, 2, 128}, AttentionInput{4096, 1024, 8, 2, 128}, AttentionInput{4096, 1024, 8, 8, 64},
        AttentionInput{384, 256, 8, 2, 40}, AttentionInput{512, 128, 4, 1, 128},
        // rows of the query are columns of a wider matrix; its gradient is turned back
        AttentionInput{0, 256, 8, 2, 128, 512}, AttentionInput{256, 256, 8, 2, 128, 512},
        AttentionInput{0, 200, 8, 2, 128, 512, 2, 0, true}, AttentionInput{640, 256, 8, 2, 128, 0, 2, 0, true},
        // a prefix in several parts
        AttentionInput{640, 256, 8, 2, 128, 0, 2, 0, false, 256},
        AttentionInput{700, 130, 8, 8, 64, 0, 2, 0, false, 128},
        // a forward in several stretches: the second case leaves less than a tile, the third begins within one
        AttentionInput{640, 512, 8, 2, 128, 512, 2, 0, false, 131072, 128},
        AttentionInput{0, 600, 8, 8, 64, 0, 2, 0, false, 131072, 256},
        AttentionInput{131, 517, 8, 2, 128, 0, 2, 0, false, 131072, 132},
        // log-sum-exps near -110, where cuDNN's unmasked backward of 64 more than a multiple of 128 keys gives NaN
        AttentionInput{128, 64, 8, 2, 128, 0, 1, 115}, AttentionInput{192, 128, 8, 8, 128, 0, 1, 115},
        AttentionInput{64, 100, 8, 2, 64, 0, 1, 115}, AttentionInput{0, 192, 8, 2, 128, 0, 1, 115}));

using Attention = LibraryOnDevice;

TEST_F(Attention, RepeatsBitByBitWhereItIsPromised) {
    const AttentionInput c{512, 384, 8, 2, 128};
    const std::size_t size = size_of(c.keys(), 2 * c.kv_width());
    for (const bool deterministic : {false, true}) {
        AttentionOnDevice device(c, random_floats(size, 5), deterministic);
        AttentionValues first;
        for (int i = 0; i < 10; ++i) {
            device.restore_gradients();
            device.forward();
            device.backward(false);
            const AttentionValues got = device.results();
            if (i == 0) first = got;
            EXPECT_EQ(bits(got.out), bits(first.out)) << "O of call " << i;
            EXPECT_EQ(bits(got.log_sum_exp), bits(first.log_sum_exp)) << "LSE of call " << i;
            EXPECT_EQ(bits(got.dkey_value), bits(first.dkey_value)) << "dK, dV of call " << i;
            if (deterministic) {
                EXPECT_EQ(bits(got.dquery), bits(first.dquery)) << "dQ of call " << i;
            }
        }
    }
}

TEST_F(Attention, DeterministicModeAgreesWithCpu) {
    for (const AttentionInput& c : {AttentionInput{0, 256, 8, 2, 128}, AttentionInput{0, 256, 8, 2, 128, 512},
                                    AttentionInput{256, 200, 8, 8, 64}}) {
        SCOPED_TRACE(::testing::PrintToString(c));
        const std::vector<float> zeros(size_of(c.keys(), 2 * c.kv_width()), 0);
        AttentionOnDevice device(c, zeros, true);
        device.forward();
        device.backward(true);
        const AttentionValues got = device.results(), want = on_cpu(c, zeros);
        EXPECT_LE(norm_error(got.dquery, want.dquery, c.width(), c.query_stride()), kNormError);
        EXPECT_LE(norm_error(got.dkey_value, want.dkey_value, 2 * c.kv_width(), 2 * c.kv_width()), kNormError);
        EXPECT_TRUE(device.guards_intact());
    }
}

// A row of keys and values is 2048 elements long and there are 2^20 + 256 of them. Keys are zero, so that query p sees
// all its p + 1 keys alike; all values are one number, so that every output is that; dout is one number too.
TEST_F(Attention, WorksBeyondInt32) {
    const AttentionShape s{Tokens{1 << 20}, Tokens{256}, 16, 8, 128};
    const std::int64_t keys = s.begin.value + s.length.value, kv_width = 1024, width = 2048;
    AttentionPlans plans;
    plans.prepare(s, {width, 2 * kv_width});
    const DeviceArray<Bf16> kv(size_of(keys, 2 * kv_width)), query(size_of(256, width)), out(size_of(256, width));
    const DeviceArray<Bf16> dout(size_of(256, width)), dquery(size_of(256, width));
    const DeviceArray<float> lse(size_of(256, 16)), dkey(size_of(keys, kv_width)), dvalue(size_of(keys, kv_width));
    const DeviceArray<std::byte> space(
        static_cast<std::size_t>(std::max(plans.forward_workspace(s), plans.backward_workspace(s)).value));
    constexpr double kValue = 0.01148681640625;  // bf16 0x3c3c
    must(cudaMemset2D(kv.data(), 4 * kv_width, 0, 2 * kv_width, static_cast<std::size_t>(keys)), "keys");
    must(cudaMemset2D(kv.data() + kv_width, 4 * kv_width, 0x3c, 2 * kv_width, static_cast<std::size_t>(keys)),
         "values");
    must(cudaMemset(dout.data(), 0x3c, dout.bytes()), "dout");
    must(cudaMemset(query.data(), 0x3c, query.bytes()), "query");
    const AttentionOperands in{{query.data(), 256, width},
                               {kv.data(), keys, kv_width, 2 * kv_width},
                               {kv.data() + kv_width, keys, kv_width, 2 * kv_width}};
    const Bf16Matrix outs(out.data(), 256, width);
    plans.forward(nullptr, s, in, {outs, lse.data()}, space.data());
    plans.backward(
        nullptr, s, in, {outs, lse.data()}, {dout.data(), 256, width},
        {{dquery.data(), 256, width}, {dkey.data(), keys, kv_width}, {dvalue.data(), keys, kv_width}, true, {}},
        space.data());

    for (const float v : floats(out.download())) ASSERT_NEAR(static_cast<double>(v), kValue, kValue / 128);
    const std::vector<float> got_lse = lse.download();
    for (std::int64_t i = 0; i < 16 * 256; ++i)
        ASSERT_NEAR(static_cast<double>(got_lse[static_cast<std::size_t>(i)]),
                    std::log(static_cast<double>((1 << 20) + 1 + i % 256)), 1e-4);
    // dV of a key: over the two query heads, the sum over the queries that see it of dout / keys seen
    for (const std::int64_t key :
         {std::int64_t{0}, std::int64_t{131071}, std::int64_t{524287}, std::int64_t{1048575}, keys - 100, keys - 1}) {
        double want = 0;
        for (std::int64_t p = std::max<std::int64_t>(key, 1 << 20); p < keys; ++p)
            want += 2 * kValue / static_cast<double>(p + 1);
        for (const float v : dvalue.download(size_of(key, kv_width), static_cast<std::size_t>(kv_width)))
            ASSERT_NEAR(static_cast<double>(v), want, want / 64) << "dV of key " << key;
        for (const float v : dkey.download(size_of(key, kv_width), static_cast<std::size_t>(kv_width)))
            ASSERT_NEAR(static_cast<double>(v), 0, 1e-6) << "dK of key " << key;
    }
    EXPECT_TRUE(space.guard_intact() && dvalue.guard_intact() && dkey.guard_intact());
}

TEST_F(Attention, RefusesWhatCudnnCannot) {
    AttentionPlans plans;
    const auto prepare = [&](std::int64_t length, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim) {
        plans.prepare({Tokens{128}, Tokens{length}, heads, kv_heads, head_dim},
                      {heads * head_dim, 2 * kv_heads * head_dim});
    };
    EXPECT_THROW(prepare(128, 4, 4, 60), InputError);
    EXPECT_THROW(prepare(128, 4, 4, 136), InputError);
    EXPECT_THROW(prepare(128, 6, 4, 64), InputError);
    EXPECT_THROW(prepare(1, 4, 4, 64), InputError);
    EXPECT_THROW(plans.forward_workspace({Tokens{0}, Tokens{128}, 4, 4, 64}), InternalError);
}

// Needs the library, but no device: it checks every descriptor when it is finalized.
TEST(AttentionGraphs, LibraryTakesEveryOperation) {
    for (const bool causal : {false, true})
        for (const std::int64_t kv_heads : {2, 8})
            for (const std::int64_t head_dim : {64, 128})
                for (const std::int64_t keys : {128, 384})
                    for (const bool deterministic : {false, true}) {
                        const std::int64_t width = 8 * head_dim;
                        const AttentionCall call{
                            128,    keys,         8, kv_heads, head_dim, width, 2 * kv_heads * head_dim, width,
                            causal, deterministic};
                        EXPECT_NO_THROW(forward_graph(call)) << text(call);
                        EXPECT_NO_THROW(backward_graph(call)) << text(call);
                    }
}

TEST(CudnnDescription, NamesTheVersionBuiltWith) { EXPECT_EQ(cudnn_description().substr(0, 7), "cuDNN 9"); }

}  // namespace
}  // namespace sluice::cuda
