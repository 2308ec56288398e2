#include "sim/simulate.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <locale>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/fingerprint.h"
#include "schedule/schedule_text.h"
#include "sim/child_process.h"
#include "tests/sim/round_machine.h"
#include "tests/support/golden_file.h"
#include "tests/support/schedule_builder.h"
#include "tests/support/temporary_folder.h"
#include "traces/trace_file.h"

namespace sluice {
namespace {

Schedule multiplexed() {
    const std::string file = "schedules/multiplexed.txt";
    return parse_schedule(read_file(golden_path(file), 1_MiB), file);
}

// The multiplexed step on a machine with everything switched on, as bytes.
std::string trace_bytes() {
    RoundMachine machine = round_machine();
    set(machine, "slow_collective", 0.9);
    set(machine, "slow_copy_out", 0.9);
    set(machine, "bus", 3);
    set(machine, "nvlink_latency", 0.001);
    std::ostringstream out;
    write_trace(out, simulate(multiplexed(), machine.cluster, machine.calibration).trace);
    return out.str();
}

std::string trace_fingerprint() { return fingerprint_hex(fingerprint(trace_bytes())); }

TEST(Simulate, StepWithoutEvents) {
    const RoundMachine machine = round_machine();
    SimulateOptions options;
    const Trace whole = simulate(multiplexed(), machine.cluster, machine.calibration, options).trace;
    options.events = false;
    const Trace bare = simulate(multiplexed(), machine.cluster, machine.calibration, options).trace;
    EXPECT_GT(bare.step, Seconds{0});
    EXPECT_EQ(bare.step, whole.step);
    EXPECT_TRUE(bare.events.empty());
}

TEST(Simulate, ReplayHereTakesAsLong) {
    const RoundMachine machine = round_machine();
    const SharedMemory memory(sizeof(Seconds));
    auto* step = static_cast<Seconds*>(memory.data());
    run_in_child(
        "replay", [&] { *step = replay_here(multiplexed(), machine.cluster, machine.calibration); }, {});
    EXPECT_EQ(*step, simulate(multiplexed(), machine.cluster, machine.calibration).trace.step);
}

TEST(Simulate, ReplayHereRefusesWhatIsStuck) {
    const RoundMachine machine = round_machine();
    Schedule schedule = multiplexed();
    schedule.ops.front().after = {schedule.ops.front().id};
    EXPECT_THROW(run_in_child(
                     "replay", [&] { replay_here(schedule, machine.cluster, machine.calibration); }, {}),
                 InternalError);
}

TEST(Simulate, SameInputsSameBytes) { EXPECT_EQ(trace_bytes(), trace_bytes()); }

struct GroupedDigits : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};

TEST(Simulate, SameBytesInAnotherLocale) {
    const std::string expected = trace_bytes();
    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new GroupedDigits));
    const char* c_locale = std::setlocale(LC_ALL, "de_DE.UTF-8");  // where it is installed
    const std::string got = trace_bytes();
    if (c_locale != nullptr) std::setlocale(LC_ALL, "C");
    std::locale::global(before);
    EXPECT_EQ(got, expected);
}

// Not a test: what SameBytesAtOtherAddresses runs as processes of their own.
TEST(Simulate, DISABLED_PrintFingerprint) {
    std::ofstream(std::getenv("SLUICE_FINGERPRINT_FILE")) << trace_fingerprint();
}

TEST(Simulate, SameBytesAtOtherAddresses) {
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
    for (int run = 0; run < 2; ++run) {
        const TemporaryFolder folder;
        const std::filesystem::path file = folder / "fingerprint.txt";
        const std::string command = "SLUICE_FINGERPRINT_FILE='" + file.string() + "' '" + self.string() +
                                    "' --gtest_also_run_disabled_tests "
                                    "--gtest_filter=Simulate.DISABLED_PrintFingerprint >/dev/null 2>&1";
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
        EXPECT_EQ(read_file(file, 1_KiB), trace_fingerprint());
    }
}

TEST(Simulate, PrintsNothing) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    trace_bytes();
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Simulate, EmptySchedule) {
    const RoundMachine machine = round_machine();
    const Simulation simulation = simulate(Schedule{}, machine.cluster, machine.calibration);
    EXPECT_TRUE(simulation.stuck.empty());
    EXPECT_EQ(simulation.trace.step, Seconds{0});
    EXPECT_EQ(simulation.activities, 0U);
}

// Half a million ops end at one instant: a queue, not recursion, lets them.
TEST(Simulate, LongChainWithoutDuration) {
    ScheduleBuilder b(1);
    for (int i = 0; i < 500'000; ++i) b.compute(0);
    b.op(0, {}, Compute{{{Pointwise{PointwiseKind::kOther, 1_GiB}, 1}}}, {}, {});
    const RoundMachine machine = round_machine();
    const Simulation simulation = simulate(b.schedule, machine.cluster, machine.calibration);
    EXPECT_NEAR(simulation.trace.step.value, 1, 1e-9);
    EXPECT_EQ(simulation.activities, 1U);
}

TEST(Simulate, CountsActivitiesNotOps) {
    const RoundMachine machine = round_machine();
    ScheduleBuilder b(4);
    b.send(0, 1, 1_GiB);
    b.receive(1, 0, 1_GiB);
    for (std::uint32_t r = 0; r < 4; ++r) b.all_reduce(r);
    // One flow for the message, one per member of the ring.
    EXPECT_EQ(simulate(b.schedule, machine.cluster, machine.calibration).activities, 5U);
}

TEST(Simulate, OptionsLeaveOutKernelsAndMemory) {
    const RoundMachine machine = round_machine();
    const Schedule schedule = multiplexed();
    const Trace whole = simulate(schedule, machine.cluster, machine.calibration).trace;
    EXPECT_FALSE(whole.kernels.empty());
    EXPECT_FALSE(whole.memory.empty());
    EXPECT_EQ(whole.pools.size(), schedule.ranks.size() + schedule.hosts.size());
    const Trace bare = simulate(schedule, machine.cluster, machine.calibration, {false, false, {}, true}).trace;
    EXPECT_TRUE(bare.kernels.empty());
    EXPECT_TRUE(bare.memory.empty());
    EXPECT_TRUE(bare.pools.empty());
    EXPECT_EQ(bare.events.size(), whole.events.size());
    EXPECT_EQ(bare.step, whole.step);
}

TEST(Simulate, ProgressGrowsFromZeroToOne) {
    ScheduleBuilder b(1);
    for (int i = 0; i < 40'000; ++i) {
        b.op(0, {}, Compute{{{Pointwise{PointwiseKind::kOther, 1_MiB}, 1}}}, {}, {});
    }
    const RoundMachine machine = round_machine();
    double last = 0;
    const auto progress = [&](double fraction) {
        EXPECT_GE(fraction, last);
        EXPECT_LE(fraction, 1);
        last = fraction;
    };
    const Simulation simulation = simulate(b.schedule, machine.cluster, machine.calibration, {true, true, progress, true});
    EXPECT_EQ(simulation.trace.events.size(), 40'000U);
}

TEST(Simulate, StuckLeavesTheTraceEmpty) {
    ScheduleBuilder b(2);
    b.send(0, 1, 1_GiB);
    const RoundMachine machine = round_machine();
    const Simulation simulation = simulate(b.schedule, machine.cluster, machine.calibration);
    ASSERT_EQ(simulation.stuck.size(), 1U);
    EXPECT_EQ(simulation.stuck[0].op, OpId{0});
    EXPECT_EQ(simulation.trace, Trace{});
}

TEST(Simulate, ProvenanceSaysWhatWasLeftOut) {
    RoundMachine machine = round_machine();
    ScheduleBuilder b(2);
    b.compute(0);
    const Provenance p = simulate(b.schedule, machine.cluster, machine.calibration).trace.provenance;
    EXPECT_EQ(p.producer, "simgrid replay");
    EXPECT_EQ(p.calibration, "round");
    EXPECT_EQ(p.hardware, "cluster round: 2 of 8 square, 8 per node, simulated");
    ASSERT_EQ(p.versions.size(), 2U);
    EXPECT_EQ(p.versions[0].first, "sluice");
    EXPECT_EQ(p.versions[1], (std::pair<std::string, std::string>("simgrid", "3.32")));
    const auto says = [](const Provenance& provenance, const std::string& text) {
        for (const std::string& omission : provenance.omissions) {
            if (omission.find(text) != std::string::npos) return true;
        }
        return false;
    };
    EXPECT_TRUE(says(p, "copies and collectives do not slow compute"));
    EXPECT_TRUE(says(p, "no table of collectives"));
    set(machine, "slow_copy_in", 0.9);
    set(machine, "bus", 1);
    set(machine, "network_bus", 1);
    const Provenance q = simulate(b.schedule, machine.cluster, machine.calibration).trace.provenance;
    EXPECT_FALSE(says(q, "copies and collectives do not slow compute"));
    EXPECT_FALSE(says(q, "no table of collectives"));
}

// SimGrid would let a later simulation of one process begin where an earlier one ended.
TEST(Simulate, EverySimulationBeginsAtZero) {
    const RoundMachine machine = round_machine();
    ScheduleBuilder b(1);
    b.op(0, {}, Compute{{{Pointwise{PointwiseKind::kOther, 1_GiB}, 1}}}, {}, {});
    for (int run = 0; run < 3; ++run) {
        const Trace trace = simulate(b.schedule, machine.cluster, machine.calibration).trace;
        EXPECT_EQ(trace.events[0].begin, Seconds{0});
        EXPECT_NEAR(trace.step.value, 1, 1e-9);
    }
}

}  // namespace
}  // namespace sluice
