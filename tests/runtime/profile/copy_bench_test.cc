#include "runtime/profile/copy_bench.h"

#include <gtest/gtest.h>

#include <array>

#include "runtime/profile/collective_bench.h"
#include "runtime/profile/machine.h"

namespace sluice {
namespace {

const CopyEffort kLittle{64_KiB, 1_MiB, Seconds{1e-3}};

TEST(CopyBench, FiguresAreThere) {
    for (const std::size_t cores : {1, 2, 3}) {
        const CopyRates rates = copy_rates(cores, kLittle);
        EXPECT_GT(rates.one.value, 1e6);
        EXPECT_GT(rates.both.value, 1e6);
        EXPECT_GE(rates.all_cores, rates.one);
        EXPECT_GT(rates.start.value, 0);
    }
    EXPECT_GT(handover(Seconds{1e-3}).median.value, 0);
}

TEST(CopyBench, CopiesNeverSpeedComputeUp) {
    const CopyInterference factors = copy_interference(2, 1, kLittle);
    for (const double factor : {factors.gemm, factors.pointwise, factors.gemm_both}) {
        EXPECT_GT(factor, 0);
        EXPECT_LE(factor, 1);
    }
}

TEST(CollectiveBench, BothCollectivesOfEverySize) {
    const std::array sizes = {4_KiB, 256_KiB};
    const std::vector<MessageFigure> figures = time_collectives(sizes, Seconds{1e-3});
    ASSERT_EQ(figures.size(), 6U);  // next to nothing first
    EXPECT_EQ(figures[2].size, 4_KiB);
    EXPECT_EQ(figures[5].size, 256_KiB);
    for (const MessageFigure& f : figures) {
        EXPECT_EQ(f.members, 2U);
        EXPECT_GT(f.time.value, 0);
    }
    EXPECT_EQ(figures[4].kind, MessageKind::kAllGather);
    EXPECT_EQ(figures[5].kind, MessageKind::kReduceScatter);
}

TEST(Machine, SaysWhatItIs) {
    const Machine machine = this_machine();
    EXPECT_FALSE(machine.cpu.empty());
    EXPECT_GE(machine.cores, 1);
    EXPECT_GT(machine.memory, 64_MiB);
    EXPECT_NE(machine.blas.find("OpenBLAS"), std::string::npos) << machine.blas;
    EXPECT_NE(describe(machine).find("core"), std::string::npos);
}

}  // namespace
}  // namespace sluice
