#include "validation/fit_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "models/kernel_cost.h"
#include "planner/lower.h"
#include "scenarios/read_calibration.h"
#include "scenarios/write_calibration.h"
#include "sim/simulate.h"
#include "tests/support/schedule_builder.h"
#include "tests/support/small_scenario.h"
#include "tests/traces/trace_builder.h"
#include "validation/correct_rates.h"

namespace sluice {
namespace {

TEST(CorrectRates, FollowsSamplesThatThePointsCanFollow) {
    std::vector<double> rates{100, 100, 100, 100};
    const std::vector<RateSample> samples{{{{0, 1}}, 50, 1}, {{{0, 0.5}, {1, 0.5}}, 60, 3}, {{{2, 1}}, 110, 1}};
    correct_rates(rates, samples);
    for (const RateSample& s : samples) EXPECT_NEAR(rate_at(rates, s.at), s.rate, 0.1);
    EXPECT_EQ(rates[3], 100) << "no sample touches it";
    EXPECT_EQ(touched_points(4, samples), (std::vector<bool>{true, true, true, false}));
}

TEST(CorrectRates, IsACompromiseByWeightWhereSamplesDisagree) {
    std::vector<double> rates{100};
    correct_rates(rates, std::vector<RateSample>{{{{0, 1}}, 100, 1}, {{{0, 1}}, 400, 1}});
    EXPECT_NEAR(rates[0], 200, 1e-6);
}

// Another calibration of the same machine, wrong in every number that a fit corrects.
Calibration perturbed(Calibration c) {
    double factor = 0.4;
    for (GemmPoint& p : c.gemm) p.rate = p.rate * (factor += 0.25);
    for (AttentionPoint& p : c.attention) p.forward = p.forward * 1.4, p.backward = p.backward * 0.8;
    c.pointwise = c.pointwise * 0.5;
    for (BandwidthPoint& p : c.nvlink_collective) p.bus_bandwidth = p.bus_bandwidth * 1.7;
    c.interference = {};
    return c;
}

Calibration read_back(const Fit& fit) {
    std::ostringstream out;
    write_calibration(out, fit.calibration, fit.origin);
    const YamlNode tree = parse_yaml(out.str(), "fitted.yaml");
    return read_calibration(YamlField{&tree, "", "fitted.yaml", tree.place}, "unnamed");
}

struct Measured {
    Scenario scenario;
    Schedule schedule;
    Trace trace;
};
Measured measured_with(const Interference& interference) {
    Measured m{small_scenario(), {}, {}};
    m.scenario.calibration.attention.clear();
    for (const std::int64_t queries : {1024, 4096})
        for (const std::int64_t keys : {4096, 8192})
            m.scenario.calibration.attention.push_back(
                {queries, keys, FlopsPerSecond{1e8 * static_cast<double>(queries + keys / 4)},
                 FlopsPerSecond{0.9e8 * static_cast<double>(queries + keys / 4)}, 0});
    m.scenario.calibration.interference = interference;
    m.schedule = lower(m.scenario).schedule;
    m.trace = simulate(m.schedule, m.scenario.cluster, m.scenario.calibration).trace;
    return m;
}

const FittedPart& part_of(const Fit& fit, std::string_view what) {
    const auto found =
        std::find_if(fit.parts.begin(), fit.parts.end(), [&](const FittedPart& p) { return p.what == what; });
    if (found == fit.parts.end()) throw std::runtime_error("no such part");
    return *found;
}

void expect_same_times(const Schedule& schedule, const Calibration& wanted, const Calibration& got, double tolerance) {
    for (const Op& op : schedule.ops) {
        const auto* compute = std::get_if<Compute>(&op.work);
        if (compute == nullptr) continue;
        for (const Kernel& kernel : compute->kernels) {
            ASSERT_NEAR(kernel_time(kernel, got) / kernel_time(kernel, wanted), 1, tolerance)
                << op_class(kernel.shape) << " in op " << index(op.id);
        }
    }
}

// A step under calibration A is taken for measured; starting from B, the fit finds A's times.
TEST(FitCalibration, RecoversTheCalibrationOfAReplay) {
    const Measured m = measured_with({});
    const Calibration wrong = perturbed(m.scenario.calibration);
    const MeasuredRun run{&m.schedule, &m.trace, "a.trace"};
    const Fit fit = fit_calibration(wrong, {&run, 1}, {2, "fitted", "2026-11-29", "one step"});
    expect_same_times(m.schedule, m.scenario.calibration, fit.calibration, 0.01);
    for (const char* what : {"gemm", "attention_forward", "attention_backward", "pointwise"}) {
        const FittedPart& part = part_of(fit, what);
        EXPECT_GT(part.spread_before, 0.1) << what;
        EXPECT_LT(part.spread_after, 0.005) << what;
        EXPECT_FALSE(part.points.empty()) << what;
        EXPECT_EQ(part.left, "") << what;
    }
    EXPECT_NE(part_of(fit, "kernel_gap").left, "") << "kernels of a replay touch";
    for (const std::string& note : fit.notes) EXPECT_EQ(note.find("outlier"), std::string::npos) << note;

    const Calibration again = read_back(fit);
    EXPECT_EQ(again.name, "fitted");
    expect_same_times(m.schedule, m.scenario.calibration, again, 0.01);
}

// As sluice profile writes them: GEMMs by shape, attention by width of a head, some memory-bound kernels by traffic.
TEST(FitCalibration, RecoversTablesThatTellKernelsApart) {
    Measured m{small_scenario(), {}, {}};
    Calibration& c = m.scenario.calibration;
    c.gemm.clear(), c.attention.clear();
    double rate = 2e11;
    for (const std::int64_t rows : {256, 4096})
        for (const std::int64_t columns : {64, 1024})
            for (const std::int64_t inner : {64, 2048})
                c.gemm.push_back({0, FlopsPerSecond{rate *= 1.15}, rows, columns, inner});
    for (const std::int64_t head_dim : {32, 64})
        for (const std::int64_t keys : {2048, 8192})
            c.attention.push_back({1024, keys, FlopsPerSecond{rate *= 1.1}, FlopsPerSecond{rate * 0.9}, head_dim});
    c.pointwise_kernels = {{PointwiseKernel::kNorm, 64_KiB, BytesPerSecond{3e11}},
                           {PointwiseKernel::kNorm, 8_MiB, BytesPerSecond{7e11}},
                           {PointwiseKernel::kAdamw, 1_MiB, BytesPerSecond{5e11}}};
    c.fused = {PointwiseKernel::kResidual};
    m.schedule = lower(m.scenario).schedule;
    m.trace = simulate(m.schedule, m.scenario.cluster, c).trace;
    Calibration wrong = perturbed(c);
    for (PointwisePoint& p : wrong.pointwise_kernels) p.rate = p.rate * 0.7;
    const MeasuredRun run{&m.schedule, &m.trace, "a.trace"};
    const Fit fit = fit_calibration(wrong, {&run, 1}, {2, "fitted", "", ""});
    const Calibration again = read_back(fit);
    for (const Op& op : m.schedule.ops) {
        const auto* compute = std::get_if<Compute>(&op.work);
        if (compute == nullptr) continue;
        const Seconds wanted = compute_time(*compute, c), got = compute_time(*compute, again);
        if (wanted.value <= 0) continue;
        ASSERT_NEAR(got / wanted, 1, 0.02) << index(op.id);
    }
    EXPECT_EQ(part_of(fit, "norm").left, "");
    EXPECT_LT(part_of(fit, "adamw").spread_after, 0.001);
}

// Shapes measured with noise do not drag points far that are a small part of them.
TEST(CorrectRates, DoesNotExplainNoiseByDistantPoints) {
    std::vector<double> rates{100, 100};
    std::vector<RateSample> samples;
    for (int i = 0; i < 10; ++i) samples.push_back({{{0, 0.98}, {1, 0.02}}, i % 2 == 0 ? 97.0 : 103.0, 1});
    samples.push_back({{{0, 0.95}, {1, 0.05}}, 103, 1});
    correct_rates(rates, samples);
    EXPECT_NEAR(rates[0], 100, 3);
    EXPECT_NEAR(rates[1], 100, 10);
}

// Copies and collectives slow the kernels beside them by factors that the calibration knows.
TEST(FitCalibration, RecoversItFromAReplayWithInterference) {
    const Interference known{0.9, 0.95, 0.8};
    const Measured m = measured_with(known);
    Calibration wrong = perturbed(m.scenario.calibration);
    wrong.interference = known;
    const MeasuredRun run{&m.schedule, &m.trace, "a.trace"};
    const Fit fit = fit_calibration(wrong, {&run, 1}, {2, "fitted", "", ""});
    expect_same_times(m.schedule, m.scenario.calibration, fit.calibration, 0.03);
}

TEST(FitCalibration, OfARightCalibrationChangesNothing) {
    const Measured m = measured_with({});
    const MeasuredRun run{&m.schedule, &m.trace, "a.trace"};
    const Fit fit = fit_calibration(m.scenario.calibration, {&run, 1}, {2, m.scenario.calibration.name, "", ""});
    EXPECT_EQ(fit.calibration, m.scenario.calibration);
    EXPECT_EQ(read_back(fit).gemm, m.scenario.calibration.gemm);
    EXPECT_EQ(fit.origin.sources.size(), 1U) << "nothing is called fitted";
}

TEST(FitCalibration, FindsWhatCollectivesCarry) {
    const Measured m = measured_with({});
    const MeasuredRun run{&m.schedule, &m.trace, "a.trace"};
    const Fit fit = fit_calibration(perturbed(m.scenario.calibration), {&run, 1}, {2, "fitted", "", ""});
    EXPECT_GT(part_of(fit, "nvlink_collective").samples, 0U);
    EXPECT_NEAR(
        fit.calibration.nvlink_collective[0].bus_bandwidth / m.scenario.calibration.nvlink_collective[0].bus_bandwidth,
        1, 0.02);
    ASSERT_FALSE(fit.suggestions.empty());
    EXPECT_TRUE(fit.suggestions.back().starts_with("sends inside a node")) << fit.suggestions.back();
}

// Three ops of one GEMM each, every 0.1 s longer than its kernel, and a fourth with a copy beside it.
struct ByHand {
    ScheduleBuilder schedule{1};
    TraceBuilder trace;
    std::uint32_t compute = trace.lane(0, LaneRole::kCompute), out = trace.lane(0, LaneRole::kCopyOut);
    double at = 0;

    void gemm(double seconds, bool copy_beside = false, Gemm shape = {1000, 1000, 500}) {
        schedule.op(0, {LaneKind::kCompute, kNoRank}, Compute{{{shape, 1}}}, {}, {});
        const OpId op = trace.op(compute, at, at + seconds + 0.1);
        trace.kernel(op, "gemm", at + 0.1, at + 0.1 + seconds);
        if (copy_beside) {
            const BufferId from = schedule.device(0, 1_KiB), to = schedule.host(0, 1_KiB);
            schedule.copy_out(0, from, to);
            trace.op(out, at, at + seconds + 0.1);
        }
        at += seconds + 0.1;
    }
    Fit fit(std::size_t least = 3) const {
        Calibration c = small_scenario().calibration;
        c.gemm = {{100, FlopsPerSecond{1e9}, 0, 0, 0}};
        const MeasuredRun run{&schedule.schedule, &trace.trace, "hand.trace"};
        return fit_calibration(c, {&run, 1}, {least, "fitted", "", ""});
    }
};

TEST(FitCalibration, TellsGapsFromKernelsWhereTheyDoNotTouch) {
    ByHand hand;
    for (int i = 0; i < 4; ++i) hand.gemm(0.5);
    const Fit fit = hand.fit();
    EXPECT_NEAR(fit.calibration.kernel_gap.value, 0.1, 1e-9);
    EXPECT_NEAR(fit.calibration.gemm[0].rate.value, 1e9 / 0.5, 1e3);
    EXPECT_EQ(part_of(fit, "attention_forward").left, "no shape has enough samples");
    EXPECT_EQ(fit.calibration.attention, small_scenario().calibration.attention);
}

TEST(FitCalibration, NamesOutliersAndDoesNotUseThem) {
    ByHand hand;
    for (const double seconds : {0.5, 0.51, 2.0, 0.49, 0.5}) hand.gemm(seconds);
    const Fit fit = hand.fit();
    EXPECT_NEAR(fit.calibration.gemm[0].rate.value, 1e9 / 0.5, 1e3);
    ASSERT_EQ(fit.notes.size(), 1U);
    EXPECT_EQ(fit.notes[0], "outlier, not used: gemm in op 2 of hand.trace: 4.00 times the median");
    EXPECT_EQ(part_of(fit, "gemm").samples, 4U);
}

TEST(FitCalibration, LeavesWhatHasTooFewSamples) {
    ByHand hand;
    for (int i = 0; i < 3; ++i) hand.gemm(0.5);
    const Fit fit = hand.fit(4);
    EXPECT_EQ(fit.calibration.gemm[0].rate.value, 1e9);
    EXPECT_EQ(part_of(fit, "gemm").left, "no shape has enough samples");
    ASSERT_EQ(fit.notes.size(), 1U);
    EXPECT_EQ(fit.notes[0], "1 shapes have too few samples and were not used, the first a gemm");
}

// 0.6 s alone; beside a copy at 0.8 of the speed 0.75 s.
TEST(FitCalibration, FindsHowMuchCopiesSlowCompute) {
    ByHand hand;
    for (int i = 0; i < 3; ++i) hand.gemm(0.5);
    for (int i = 0; i < 3; ++i) hand.gemm(0.65, true);
    const Fit fit = hand.fit();
    EXPECT_NEAR(fit.calibration.gemm[0].rate.value, 1e9 / 0.5, 1e3) << "those beside a copy are not used";
    EXPECT_NEAR(fit.calibration.interference.copy_out, 0.8, 1e-9);
    EXPECT_EQ(fit.calibration.interference.collective, 1);
    EXPECT_EQ(part_of(fit, "interference").left, "too few ops beside them alone: copy_in, collective");
}

TEST(FitCalibration, DoesNotUseOpsWhoseKernelsAreOthers) {
    ByHand hand;
    for (int i = 0; i < 4; ++i) hand.gemm(0.5);
    hand.trace.trace.kernels[1].count = 2;
    const Fit fit = hand.fit();
    EXPECT_EQ(part_of(fit, "gemm").samples, 3U);
    ASSERT_EQ(fit.notes.size(), 1U);
    EXPECT_TRUE(fit.notes[0].starts_with("1 ops not used: op 1 of hand.trace")) << fit.notes[0];
}

// Two shapes at the lower end of a table that contradict each other, one of them with a small part of the upper end: it
// was dragged to a ten-thousandth of its rate (measured embeddings, H200 in two parts).
TEST(CorrectRates, ContradictionsDoNotDragAPointAway) {
    const std::vector<double> before = {1000, 1700};
    std::vector<double> rates = before;
    const std::vector<RateSample> samples = {{{{0, 1}}, 2000, 1}, {{{0, 0.98}, {1, 0.02}}, 600, 2}};
    correct_rates(rates, samples);
    const double least = std::log(600 / (0.98 * 1000 + 0.02 * 1700)), most = std::log(2.0);
    for (std::size_t i = 0; i < rates.size(); ++i) {
        EXPECT_GE(rates[i], before[i] * std::exp(3 * least - 2 * most) * (1 - 1e-9));
        EXPECT_LE(rates[i], before[i] * std::exp(3 * most - 2 * least) * (1 + 1e-9));
    }
}

}  // namespace
}  // namespace sluice
