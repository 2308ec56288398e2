// docs/simulator.md, "The limit of power": how busy a device has been, and what it gains by that.
#include "sim/busy_share.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedule/schedule.h"
#include "sim/simulate.h"
#include "tests/sim/round_machine.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

constexpr Seconds kInstant{0};

PowerLimit limit() { return {1.5, 1.2, 1.1, 0.5, Seconds{1}}; }

TEST(BusyShare, OneThatNeverPausesGainsNothing) {
    const PowerLimit l = limit();
    BusyShare share(l, 1);
    for (int op = 0; op < 5; ++op) {
        share.begin(Seconds{op * 3.0});
        EXPECT_EQ(share.gain(Seconds{3}), 0);
        share.end(Seconds{op * 3.0 + 3});
    }
}

TEST(BusyShare, FullGainAfterALongPauseNoneLongAfterIt) {
    const PowerLimit l = limit();
    BusyShare share(l, 1);
    share.begin(Seconds{0}), share.end(Seconds{1});
    share.begin(Seconds{100});
    EXPECT_EQ(share.gain(kInstant), 1);
    EXPECT_LT(share.gain(Seconds{1000}), 0.01);  // most of so long a call runs when the pause is long over
    share.end(Seconds{200}), share.begin(Seconds{200});
    EXPECT_NEAR(share.gain(kInstant), 0, 1e-12);
}

// Work and pauses much shorter than the window: the average is the share of work, and the gain a straight line in it.
TEST(BusyShare, GainFallsFromTheBusyShareToOne) {
    const PowerLimit l = limit();
    for (const auto& [busy, gain] : {std::pair(0.4, 1.0), {0.5, 1.0}, {0.6, 0.8}, {0.75, 0.5}, {0.9, 0.2}}) {
        BusyShare share(l, 1);
        double now = 0;
        for (int turn = 0; turn < 20000; ++turn, now += 1e-3) {
            share.begin(Seconds{now});
            share.end(Seconds{now + busy * 1e-3});
        }
        share.begin(Seconds{now});
        EXPECT_NEAR(share.gain(kInstant), gain, 0.01) << busy;
    }
}

TEST(BusyShare, ADeviceInPartsIsAsBusyAsItsPartsOnAverage) {
    const PowerLimit l = limit();
    BusyShare share(l, 4);
    for (int part = 0; part < 3; ++part) share.begin(Seconds{0});
    share.end(Seconds{100}), share.begin(Seconds{100});
    EXPECT_NEAR(share.gain(kInstant), 0.5, 1e-9);  // three quarters busy
}

// The replay: a product of 1 s; a pause of 32 s, in which the GPU waits for a copy; the same product and a kernel that
// memory bounds. The average over the second is 1 - (1 - 1/e): below a half, so all of the gain is to be had.
TEST(BusyShare, TheReplayMakesProductsFasterAfterAPause) {
    const Compute product{{{Gemm{1 << 10, 1 << 10, 1 << 19}, 1}}};
    const Compute pass{{{Pointwise{PointwiseKind::kOther, 1_GiB}, 1}}};
    ScheduleBuilder b(1);
    const OpId first = b.op(0, {LaneKind::kCompute, kNoRank}, product, {}, {});
    const OpId copy = b.op(0, {LaneKind::kCopyOut, kNoRank}, Copy{256_GiB}, {}, {first});
    b.op(0, {LaneKind::kCompute, kNoRank}, product, {}, {copy});
    b.op(0, {LaneKind::kCompute, kNoRank}, pass, {}, {});
    const Schedule& schedule = b.schedule;
    RoundMachine m = round_machine();
    const auto times = [&] {
        const Trace trace = simulate(schedule, m.cluster, m.calibration).trace;
        std::vector<double> all;
        for (const TraceEvent& e : trace.events)
            if (trace.lanes[e.lane].role == LaneRole::kCompute) all.push_back((e.end - e.begin).value);
        return all;
    };
    EXPECT_EQ(times(), (std::vector<double>{1, 1, 1}));
    m.calibration.power_limit = limit();
    const std::vector<double> limited = times();
    EXPECT_NEAR(limited[0], 1, 1e-9);
    EXPECT_NEAR(limited[1], 1 / 1.5, 1e-9);
    EXPECT_NEAR(limited[2], 1, 1e-9);
}

}  // namespace
}  // namespace sluice
