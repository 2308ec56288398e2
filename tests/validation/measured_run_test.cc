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

struct MeasuredRuns : testing::Test {
    Scenario scenario = small_scenario();
    Schedule schedule = parse(kTwoRanks);
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
