// Real runs of a toy on threads, beside a replay: whatever the times are, everything adds up.
#include <gtest/gtest.h>

#include <sstream>

#include "base/fingerprint.h"
#include "runtime/measured_trace.h"
#include "scenarios/read_calibration.h"
#include "scenarios/write_calibration.h"
#include "schedule/schedule_file.h"
#include "sim/simulate.h"
#include "tests/runtime/toy_step.h"
#include "tests/support/small_scenario.h"
#include "validation/compare.h"
#include "validation/fit_calibration.h"

namespace sluice {
namespace {

constexpr std::string_view kPair = R"(sluice-schedule 1
host h0 1 GiB
rank r0 h0 1 MiB
rank r1 h0 2 MiB
buffer b0 r0 device activation 256 B @0 B
buffer b1 r0 host staging 256 B @0 B
buffer b2 r0 device activation 256 B @0 B
buffer b3 r1 device grads 256 B @0 B persistent
buffer b4 r1 device activation 256 B @256 B
buffer b5 r0 device activation 256 B @0 B
op 0 r0 compute norm(1 KiB) gemm(8 8 8)*2 | write b0 | forward stage 0 layer 3 sub 0
op 1 r0 copy_out 256 B | after 0 | read b0 write b1 | forward stage 0 sub 0
op 2 r0 send r1 256 B | after 0 | read b0 | forward stage 0 sub 0
op 3 r0 compute gemm(8 8 8) | after 1 2 | write b2 | forward stage 0 sub 1
op 4 r0 copy_in 256 B | after 3 | read b1 write b5 | backward stage 0 sub 0
op 5 r1 receive r0 256 B | write b4 | forward stage 1 sub 0
op 6 r1 compute gemm(8 8 8) | after 5 | read b4 accumulate b3 | backward stage 1 sub 0
end
)";

struct MeasuredRuns : testing::Test {
    Scenario scenario = small_scenario();
    Schedule schedule = parse(kPair);
    Trace predicted = simulate(schedule, scenario.cluster, scenario.calibration).trace;
    std::vector<Trace> measured;

    void SetUp() override {
        ToyRun toy(schedule);
        for (int step = 0; step < 5; ++step) {
            toy.run.run_step();
            measured.push_back(measured_trace(schedule, toy.run.times(), {}));
            measured.back().provenance.schedule_fingerprint = fingerprint_hex(fingerprint(to_binary(schedule)));
        }
    }
};

TEST_F(MeasuredRuns, ErrorSharesSumToTheErrorOfTheMedianStep) {
    const Comparison c = compare(predicted, measured, {3, &schedule});
    ASSERT_EQ(c.measured_steps.size(), 5U);
    EXPECT_EQ(c.step.measured, c.measured_steps[2]);
    Nanoseconds error{};
    for (const ErrorShare& share : c.error_shares) {
        EXPECT_NE(share.op_class, kNotRecorded) << "a run says what every op waited for";
        error += share.error();
    }
    EXPECT_EQ(error, to_nanoseconds(c.step.predicted) - to_nanoseconds(c.step.measured));
    EXPECT_TRUE(c.kernels);
    EXPECT_TRUE(c.only_predicted.empty() && c.only_measured.empty());
    for (const PoolPair& pool : c.pools) EXPECT_EQ(pool.predicted_arena, pool.measured_arena) << pool.owner;
    for (const ClassPair& pair : c.classes) EXPECT_EQ(pair.predicted_calls, pair.measured_calls) << pair.op_class;
}

TEST_F(MeasuredRuns, AFitReadsThem) {
    std::vector<MeasuredRun> runs;
    for (const Trace& trace : measured) runs.push_back({&schedule, &trace, "toy"});
    const Fit fit = fit_calibration(scenario.calibration, runs, {3, "toy", "2026-11-29", "a toy"});
    EXPECT_EQ(fit.parts.front().what, "gemm");
    EXPECT_EQ(fit.parts.front().shapes, 1U);
    EXPECT_GT(fit.parts.front().samples, 7U) << "of 15, outliers apart";
    std::ostringstream out;
    write_calibration(out, fit.calibration, fit.origin);
    const YamlNode tree = parse_yaml(out.str(), "toy.yaml");
    EXPECT_EQ(read_calibration(YamlField{&tree, "", "toy.yaml", tree.place}, "unnamed").name, "toy");
}

}  // namespace
}  // namespace sluice
