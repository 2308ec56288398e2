// What all threads of one run share: who waits for what, and the failure that ends them all.
//
// No thread of a run waits in any other way, and so none can hang: a failure wakes every wait, and when all threads
// wait and nobody is left to end a wait, the run is stuck, which is a failure too.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/signal.h"

namespace sluice {

// Thrown out of a wait when the run is over, to unwind the thread. It says nothing: the failure is in the monitor.
struct RunStopped {};

// What went wrong first, and where.
enum class FailureKind : std::uint8_t { kInput, kEnvironment, kInternal };
struct RunFailure {
    FailureKind kind = FailureKind::kInternal;
    std::string message;  // one line
};
// Of the exception that is being handled, of which there must be one: InputError and EnvironmentError keep their kind,
// std::bad_alloc is of the environment, the rest is internal.
RunFailure current_failure();

class RunMonitor {
public:
    // Threads that will take part, the one that calls run_step() included; to be called before any of them waits. Only
    // when that many wait is a run stuck; with 0 nothing ever is.
    void add_threads(std::size_t count);

    // Adds lines that say what is waiting for what. Asked once, when the run is stuck and no thread of it moves.
    void explain_stuck_with(std::function<std::string()> explain);

    // Returns when `signal` has reached `target`. Throws RunStopped when the run has failed or was stopped.
    void wait(Signal& signal, std::uint64_t target);

    // The first failure wins; every wait ends, now and from now on.
    void fail(FailureKind kind, std::string message);
    // The same for an exception: InputError and EnvironmentError keep their kind, the rest is internal. `where`, if not
    // empty, comes before the exception's own words. RunStopped changes nothing.
    void fail(std::exception_ptr cause, const std::string& where);
    // Ends every wait without a failure: the run is being taken down.
    void stop();

    bool stopped() const { return stopped_.load(std::memory_order_seq_cst); }

    // The failure, if there is one; thrown as the error of its kind. Any number of times.
    std::optional<RunFailure> failure() const;
    void throw_failure() const;

private:
    struct Waiting {
        Signal* signal;
        std::uint64_t target;
        Waiting *before, *next;
    };

    void enter(Waiting& waiting);
    void leave(Waiting& waiting);
    bool stuck() const;
    void stop_locked();

    mutable std::mutex mutex_;
    std::atomic<bool> stopped_{false};
    std::optional<RunFailure> failure_;
    Waiting* first_ = nullptr;  // waits in progress, linked through the stacks of their threads
    std::size_t waiting_ = 0, threads_ = 0;
    std::function<std::string()> explain_;
};

}  // namespace sluice
