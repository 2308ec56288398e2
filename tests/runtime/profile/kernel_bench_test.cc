// What is timed is what was asked for. That a figure is of the right size is all that is asserted about time.
#include "runtime/profile/kernel_bench.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "scenarios/pointwise_kernel_names.h"

namespace sluice {
namespace {

const MeasureEffort kLittle{Seconds{1e-4}, Seconds{2e-4}, 2, Seconds{0.02}};

bool plausible(Seconds time) { return std::isfinite(time.value) && time > Seconds{1e-9} && time < Seconds{10}; }

TEST(KernelBench, TimesProductsOfAnyShape) {
    KernelBench bench(kLittle);
    for (const Gemm& g : {Gemm{1, 1, 1}, Gemm{16, 64, 256}, Gemm{300, 7, 33}, Gemm{5, 1000, 2}})
        EXPECT_TRUE(plausible(bench.time(g).median)) << g.m << " x " << g.n << " x " << g.k;
    EXPECT_LT(bench.time(Gemm{8, 8, 8}).median, bench.time(Gemm{256, 256, 256}).median);  // 32768 times the work
}

TEST(KernelBench, TimesAttentionOfAnyShape) {
    KernelBench bench(kLittle);
    for (const Pass pass : {Pass::kForward, Pass::kBackward})
        for (const Attention& a : {Attention{pass, true, 1, 1, 1, 1, 16}, Attention{pass, true, 130, 130, 4, 2, 32},
                                   Attention{pass, true, 16, 400, 8, 8, 64}})
            EXPECT_TRUE(plausible(bench.time(a).median)) << a.queries << " x " << a.keys;
    EXPECT_THROW(bench.time(Attention{Pass::kForward, false, 8, 8, 1, 1, 16}), InternalError);
}

TEST(KernelBench, TimesAboutTheTrafficThatWasAskedFor) {
    KernelBench bench(kLittle);
    using enum PointwiseKernel;
    for (const PointwiseKernel kernel :
         {kRope, kResidual, kEmbedding, kCrossEntropy, kAdamw, kOther, kLayerNorm, kRmsNorm, kGelu, kSwiglu}) {
        for (const Bytes traffic : {200_KiB, 1_MiB}) {
            const KernelBench::PointwiseTime t = bench.time(kernel, traffic);
            const double asked = static_cast<double>(t.calls) * static_cast<double>(traffic.value);
            EXPECT_NEAR(static_cast<double>(t.traffic.value) / asked, 1, 0.25) << name(kernel);
            EXPECT_TRUE(plausible(t.time.median)) << name(kernel);
        }
        EXPECT_GT(bench.time(kernel, 1_B).traffic.value, 0) << name(kernel);  // a row at least
    }
    for (const PointwiseKernel kernel : {kNorm, kActivation, kAccumulate})
        EXPECT_THROW(bench.time(kernel, 1_MiB), InternalError) << name(kernel);
}

}  // namespace
}  // namespace sluice
