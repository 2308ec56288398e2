#include "validation/error_shares.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/traces/random_trace.h"
#include "tests/traces/trace_builder.h"

namespace sluice {
namespace {

std::vector<ErrorShare> shares(const Trace& predicted, const Trace& measured, bool kernels = true) {
    return error_shares(predicted, OpPieces(predicted, kernels, nullptr), measured,
                        OpPieces(measured, kernels, nullptr));
}

const ErrorShare* find(const std::vector<ErrorShare>& all, std::string_view op_class) {
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const ErrorShare& s) { return s.op_class == op_class; });
    return found == all.end() ? nullptr : &*found;
}

// Two computes with a copy beside them; whichever is longer decides.
Trace step(double gemm, double copy, double launch = 0) {
    TraceBuilder t;
    const std::uint32_t compute = t.lane(0, LaneRole::kCompute), out = t.lane(0, LaneRole::kCopyOut);
    const OpId first = t.op(compute, 0, 1);
    const OpId beside = t.op(compute, 1 + launch, 1 + launch + gemm, after_lane(first));
    const OpId copied = t.op(out, 1, 1 + copy, data(first));
    const double ready = std::max(1 + launch + gemm, 1 + copy);
    t.op(compute, ready, ready + 1, 1 + copy > 1 + launch + gemm ? reuse(copied) : after_lane(beside));
    t.kernel(first, "norm", 0, 1);
    t.kernel(beside, "gemm", 1 + launch, 1 + launch + gemm);
    t.kernel(OpId{3}, "norm", ready, ready + 0.5);
    return t.trace;
}

TEST(ErrorShares, OfOpsOnBothChains) {
    const auto all = shares(step(2, 1), step(3, 1));
    ASSERT_EQ(all.front().op_class, "gemm");
    EXPECT_EQ(all.front().error().value, -1000000000);
    EXPECT_EQ(all.front().same_ops.value, -1000000000);
    EXPECT_EQ(all.front().other_path().value, 0);
    for (std::size_t i = 1; i < all.size(); ++i) EXPECT_EQ(all[i].error().value, 0) << all[i].op_class;
    EXPECT_EQ(find(all, "norm")->measured.value, 1500000000);
    EXPECT_EQ(find(all, kBetweenKernels)->measured.value, 500000000) << "the rest of the last op";
}

// The copy hides behind the GEMM in the prediction and sticks out in the measured step: 2 s of GEMM left the chain and
// 5 s of copy came in.
TEST(ErrorShares, OfAnotherPath) {
    const auto all = shares(step(2, 1), step(2, 5));
    EXPECT_EQ(all.front().op_class, "copy_out");
    EXPECT_EQ(all.front().error().value, -5000000000);
    EXPECT_EQ(all.front().same_ops.value, 0);
    EXPECT_EQ(all.front().other_path().value, -5000000000);
    ASSERT_EQ(all.front().waits.size(), 1U);
    EXPECT_EQ(all.front().waits.front().wait, Wait::kReuse);
    EXPECT_EQ(find(all, "gemm")->error().value, 2000000000);
}

TEST(ErrorShares, LaunchOverheadIsAClassOfItsOwn) {
    const auto all = shares(step(2, 1), step(2, 1, 0.25));
    EXPECT_EQ(all.front().op_class, kStartGap);
    EXPECT_EQ(all.front().error().value, -250000000);
}

TEST(ErrorShares, WithoutKernelsComputeIsOneClass) {
    const auto all = shares(step(2, 1), step(3, 1), false);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.front().op_class, "compute");
}

// Of any two traces whatever, alike or not.
TEST(ErrorShares, SumToTheErrorOfTheStepExactly) {
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
        const Trace predicted = random_trace(seed, {1 + seed % 4, 20 + seed, true});
        Trace measured = random_trace(seed + (seed % 2 == 0 ? 1000 : 0), {1 + seed % 4, 20 + seed, true});
        measured.step += Seconds{0.123456789};
        for (TraceEvent& e : measured.events)
            if (index(e.op) % 7 == 0) e.blocker = kNoOp, e.wait = Wait::kNone;  // a recorder that missed some
        Nanoseconds error{}, p{}, m{}, waits{};
        for (const ErrorShare& share : shares(predicted, measured, seed % 5 != 0)) {
            error += share.error();
            p += share.predicted;
            m += share.measured;
            for (const WaitTime& wait : share.waits) waits += wait.predicted - wait.measured;
        }
        ASSERT_EQ(p, to_nanoseconds(predicted.step)) << seed;
        ASSERT_EQ(m, to_nanoseconds(measured.step)) << seed;
        ASSERT_EQ(error, to_nanoseconds(predicted.step) - to_nanoseconds(measured.step)) << seed;
        ASSERT_EQ(waits, error) << seed;
    }
}

TEST(ErrorShares, OfATraceAgainstItselfAreNothing) {
    const Trace trace = random_trace(7);
    for (const ErrorShare& share : shares(trace, trace)) {
        EXPECT_EQ(share.error().value, 0);
        EXPECT_EQ(share.same_ops.value, 0);
    }
}

}  // namespace
}  // namespace sluice
