// What the processes of a job know of each other, and how a job ends that cannot go on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rendezvous/job_watch.h"
#include "runtime/run_monitor.h"

namespace sluice {

struct JobMember {
    std::string name;          // "rank 3", "ranks 4 to 7": at most kLongestName bytes of printable ASCII
    std::uint64_t digest = 0;  // of what all must have alike: the schedule
};
inline constexpr std::size_t kLongestName = 64;
inline constexpr std::size_t kLongestInFlight = 1500;  // of one process, in a verdict
inline constexpr std::size_t kLongestMessage = 4000;

// The end of a job that failed: what every process of it ends with.
struct JobVerdict {
    FailureKind kind = FailureKind::kEnvironment;
    std::string line;  // which process, what it said, and what was in flight on every one
};
[[noreturn]] void throw_verdict(const JobVerdict&);  // as the error of its kind

struct JobLimits {
    std::chrono::milliseconds join{120000};     // until all processes are there
    std::chrono::milliseconds heartbeat{250};   // between signs of life
    WatchLimits watch;                          // silence and stall
    std::chrono::milliseconds reports{1500};    // after a failure, until all have said what they were doing
    std::chrono::milliseconds farewell{1000};   // until all have heard the last words
    std::chrono::milliseconds unwinding{1500};  // after the verdict, until the run has ended by itself
};

// What a process is asked while it runs. Some of it by the thread that keeps the connections and ends what hangs: it
// must not be kept itself. So these return at once whatever the run and its devices are doing, also while one of those
// below does not return.
struct JobRun {
    std::function<bool()> in_step;  // StepProgress has what it means
    // Once a step has failed by itself: the job then ends with it, although the run may still be unwound, for however
    // long. The message may already name the rank. Empty: it does not say.
    std::function<std::optional<RunFailure>()> failure;
    // The job has failed, here or elsewhere: end every wait. Called once.
    std::function<void(FailureKind, const std::string& message)> stop;
    // The run has not ended within `unwinding` of the verdict: some call of it never returns. End the process. Called
    // once; empty: nobody does.
    std::function<void(const JobVerdict&)> abandon;

    // These look at the device, and so may take long, or never return: they are called aside, by a thread of their own,
    // one at a time. Until they return no op has ended since they last did. An exception is no answer.
    std::function<std::uint64_t()> ended_ops;  // of all steps; only goes up
    std::function<std::string()> in_flight;    // "rank 3: op 12 (rank 3, compute) for 1.2 s"; empty: nothing
};

}  // namespace sluice
