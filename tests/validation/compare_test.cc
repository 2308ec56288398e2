#include "validation/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "planner/lower.h"
#include "sim/simulate.h"
#include "tests/support/small_scenario.h"
#include "tests/traces/example_trace.h"
#include "tests/traces/random_trace.h"

namespace sluice {
namespace {

// The example with everything from `from` seconds on later by `delay`.
Trace delayed(double from, double delay) {
    Trace trace = example_trace();
    const auto move = [&](Seconds& t, bool is_end) {
        if (is_end ? t.value > from : t.value >= from) t += Seconds{delay};
    };
    for (TraceEvent& e : trace.events) move(e.begin, false), move(e.end, true);
    for (KernelSpan& k : trace.kernels) move(k.begin, false), move(k.end, true);
    trace.step += Seconds{delay};
    return trace;
}

template <class List, class Is>
auto& find(List& list, const Is& is) {
    const auto found = std::find_if(list.begin(), list.end(), is);
    if (found == list.end()) throw std::runtime_error("not in the list");
    return *found;
}

TEST(Compare, OfALongerFirstOp) {
    const Trace predicted = example_trace(), measured = delayed(1.75, 0.5);  // the norm of F0 and all that follows
    const Comparison c = compare(predicted, {&measured, 1});
    EXPECT_EQ(c.step.predicted, Seconds{10});
    EXPECT_EQ(c.step.measured, Seconds{10.5});
    EXPECT_NEAR(c.step.relative_error(), -0.5 / 10.5, 1e-12);
    EXPECT_EQ(c.error_shares.front().op_class, "norm");
    EXPECT_EQ(c.worst_ops.front().op, OpId{0});
    EXPECT_EQ(c.worst_ops.front().time.error(), Seconds{-0.5});
    const ClassPair& norm = find(c.classes, [](const ClassPair& p) { return p.op_class == "norm"; });
    EXPECT_EQ(norm.busy.predicted, Seconds{0.5});
    EXPECT_EQ(norm.busy.measured, Seconds{1});
    EXPECT_EQ(norm.measured_calls, 1U);
    const NumberedPair& first = find(c.subsequences, [](const NumberedPair& p) { return p.number == 0; });
    EXPECT_EQ(first.compute.measured, Seconds{4});  // F0 of both ranks
    EXPECT_EQ(first.others.measured, Seconds{5});   // S0 at both ends, offload, reload
    const LanePair& compute = find(c.lanes, [](const LanePair& p) { return p.lane.role == LaneRole::kCompute; });
    EXPECT_EQ(compute.busy.predicted, Seconds{5});
    EXPECT_EQ(compute.busy.measured, Seconds{5.5});
    EXPECT_EQ(c.measured_mean.work.value, 4);
    ASSERT_EQ(c.pools.size(), 2U);
    EXPECT_FALSE(c.pools[0].host);
    EXPECT_EQ(c.pools[0].measured_live, 3_MiB);
    EXPECT_TRUE(c.only_measured.empty());
}

TEST(Compare, TakesTheMedianOfSeveralStepsAndTheirSpread) {
    const std::vector<Trace> measured{delayed(1.75, 3), delayed(1.75, 1), delayed(1.75, 2), delayed(1.75, 9)};
    const Comparison c = compare(example_trace(), measured);
    EXPECT_EQ(c.median_step, 2U) << "the lower of the two in the middle";
    EXPECT_EQ(c.step.measured, Seconds{12});
    EXPECT_EQ(c.measured_steps, (std::vector<Seconds>{Seconds{11}, Seconds{12}, Seconds{13}, Seconds{19}}));
    const ClassPair& norm = find(c.classes, [](const ClassPair& p) { return p.op_class == "norm"; });
    EXPECT_EQ(norm.busy.measured, Seconds{2.5});
    EXPECT_EQ(norm.measured_least, Seconds{1.5});
    EXPECT_EQ(norm.measured_most, Seconds{9.5});
}

TEST(Compare, NamesOpsThatOneTraceLacks) {
    Trace predicted = example_trace(), measured = example_trace();
    predicted.kernels.clear(), measured.kernels.clear();
    predicted.events.erase(predicted.events.begin() + 3);
    measured.events.erase(measured.events.begin() + 11, measured.events.end());
    const Comparison c = compare(predicted, {&measured, 1});
    EXPECT_EQ(c.only_measured, std::vector<OpId>{OpId{3}});
    EXPECT_EQ(c.only_predicted, (std::vector<OpId>{OpId{11}, OpId{12}}));
    EXPECT_EQ(c.worst_ops.size(), 10U);
    EXPECT_FALSE(c.kernels);
}

TEST(Compare, RefusesTracesOfDifferentSchedules) {
    Trace other = example_trace();
    EXPECT_NO_THROW(require_same_schedule(other, "a", other, "b"));
    other.provenance.schedule_fingerprint = "00000000000000cc";
    try {
        require_same_schedule(example_trace(), "a.trace", other, "b.trace");
        FAIL() << "accepted";
    } catch (const InputError& e) {
        EXPECT_TRUE(
            std::string(e.what()).starts_with("b.trace: is of schedule 00000000000000cc (example), but a.trace"))
            << e.what();
    }
    other.provenance.schedule_fingerprint.clear();
    EXPECT_THROW(require_same_schedule(other, "a", other, "b"), InputError);
}

// A replay under slower GEMMs, joined with one under the calibration that it was planned with.
TEST(Compare, OfTwoCalibrationsBlamesWhatDiffers) {
    Scenario s = small_scenario();
    const Schedule schedule = lower(s).schedule;
    const Trace predicted = simulate(schedule, s.cluster, s.calibration).trace;
    for (GemmPoint& point : s.calibration.gemm) point.rate = point.rate * 0.5;
    const Trace measured = simulate(schedule, s.cluster, s.calibration).trace;
    const Comparison c = compare(predicted, {&measured, 1}, {5, &schedule});
    EXPECT_LT(c.step.relative_error(), -0.1);
    EXPECT_EQ(c.error_shares.front().op_class, "gemm");
    for (const ClassPair& pair : c.classes) {
        const double expected = pair.op_class == "gemm" ? -0.5 : 0;
        EXPECT_NEAR(pair.busy.relative_error(), expected, 0.05) << pair.op_class;
        EXPECT_EQ(pair.predicted_calls, pair.measured_calls);
        EXPECT_NE(pair.op_class, "collective") << "the schedule tells them apart";
    }
    EXPECT_EQ(c.worst_ops.size(), 5U);
    for (const PoolPair& pool : c.pools) EXPECT_EQ(pool.predicted_arena, pool.measured_arena);
}

}  // namespace
}  // namespace sluice
