// One process of a job whose steps are counters: what rendezvous_process_test starts, kills and stops.
//
//   toy_job MEETING DIGEST STEPS [MISCHIEF AT [STALL]]      with RANK, WORLD_SIZE, LOCAL_RANK set
//
// A step is 20 ops of a millisecond on a thread; between steps all ranks' sums go to process 0, which prints them.
// STALL is the limit in milliseconds. At op AT there happens, as MISCHIEF says:
//
//   throw    an error
//   linger   an error, and the run is not unwound
//   cling    an error, and who looks at the device does not return
//   stall    the op never returns
//   mute     the op never returns, and who looks at the device does not return either
//   swap     another call than the others make
//   leave    the end, too early
//   none     nothing
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "runtime/rendezvous/rendezvous.h"
#include "runtime/rendezvous/wire.h"
#include "runtime/run_monitor.h"

namespace sluice {
namespace {

constexpr std::uint64_t kOps = 20;

struct Toy {
    std::string mischief;
    std::uint64_t at = 0;  // op at which it happens
    RunMonitor monitor;
    std::atomic<bool> in_step{false};
    std::atomic<std::uint64_t> ended{0};

    bool happens(std::string_view what) const { return ended == at && mischief == what; }

    void op() {
        if (monitor.stopped()) throw RunStopped{};
        const std::string broke = fmt::format("op {}: the toy broke", at);
        if (happens("linger") || happens("cling")) monitor.fail(FailureKind::kEnvironment, broke);
        if (happens("throw") || happens("cling")) throw EnvironmentError(broke);
        while (happens("stall") || happens("mute") || happens("linger")) wait();
        wait();
        ++ended;
    }

    void look() const {
        while (happens("mute") || happens("cling")) wait();
    }

    static void wait() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
};

int finish(const char* kind, const std::string& line, int code) {
    fmt::print("{}: {}\n", kind, line);
    std::fflush(stdout);
    return code;
}

void run(Toy& toy, Rendezvous& rendezvous, std::uint64_t steps) {
    const std::string name = fmt::format("rank {}", rendezvous.process());
    JobRun watched;
    watched.in_step = [&] { return toy.in_step.load(); };
    watched.failure = [&] { return toy.monitor.failure(); };
    watched.ended_ops = [&] { return toy.look(), toy.ended.load(); };
    watched.in_flight = [&] { return toy.look(), toy.in_step ? fmt::format("{}: op {}", name, toy.ended.load()) : ""; };
    watched.stop = [&](FailureKind kind, const std::string& message) { toy.monitor.fail(kind, message); };
    watched.abandon = [](const JobVerdict& verdict) { std::_Exit(finish("abandoned", verdict.line, 3)); };
    const Rendezvous::Watch watch(rendezvous, watched);
    for (std::uint64_t step = 0; step < steps; ++step) {
        toy.in_step = true;
        for (std::uint64_t op = 0; op < kOps; ++op) toy.op();
        toy.in_step = false;
        if (toy.mischief == "leave" && toy.ended >= toy.at) return;
        const bool swapped = toy.mischief == "swap" && toy.ended >= toy.at;
        WireWriter writer;
        writer.u64(toy.ended * (rendezvous.process() + 1));
        const auto all =
            rendezvous.gather(swapped ? "traces" : fmt::format("findings of step {}", step), writer.take());
        std::uint64_t sum = 0;
        for (const auto& bytes : all) sum += WireReader(bytes).u64();
        if (rendezvous.process() == 0) finish("step", fmt::format("{}: {}", step, sum), 0);
    }
}

int start(int argc, char** argv) {
    if (argc != 4 && argc != 6 && argc != 7) return 2;
    const LaunchPlace place = read_launch_place({"", "", argv[1]}, process_environment());
    Toy toy;
    if (argc > 5) toy.mischief = argv[4], toy.at = std::strtoull(argv[5], nullptr, 10);
    JobLimits limits;
    limits.join = std::chrono::seconds(20);
    limits.heartbeat = std::chrono::milliseconds(50);
    limits.watch = {std::chrono::milliseconds(1000), std::chrono::milliseconds(1800)};  // silence is told from a stall
    if (argc > 6) limits.watch.stall = std::chrono::milliseconds(std::strtoll(argv[6], nullptr, 10));
    limits.reports = std::chrono::milliseconds(500);
    limits.farewell = std::chrono::milliseconds(300);
    limits.unwinding = std::chrono::milliseconds(300);
    Rendezvous rendezvous(place, {fmt::format("rank {}", place.process), std::strtoull(argv[2], nullptr, 10)}, limits);
    run_in_job(rendezvous, [&] { run(toy, rendezvous, std::strtoull(argv[3], nullptr, 10)); });
    return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
    try {
        return sluice::start(argc, argv);
    } catch (const sluice::InputError& error) {
        return sluice::finish("input", error.what(), 2);
    } catch (const std::exception& error) {
        return sluice::finish("failed", error.what(), 3);
    }
}
