#include "runtime/run_monitor.h"

#include <chrono>
#include <new>
#include <utility>

#include "base/error.h"

namespace sluice {
namespace {

// To sleep and be woken takes some 10 us; who is waited for is often done sooner.
bool reached_soon(const Signal& signal, std::uint64_t target) {
    using Clock = std::chrono::steady_clock;
    if (signal.reached(target)) return true;
    for (const auto until = Clock::now() + std::chrono::microseconds(2); Clock::now() < until;)
        if (signal.reached(target)) return true;
    return false;
}

}  // namespace

RunFailure current_failure() {
    try {
        throw;
    } catch (const InputError& error) {
        return {FailureKind::kInput, error.what()};
    } catch (const EnvironmentError& error) {
        return {FailureKind::kEnvironment, error.what()};
    } catch (const std::bad_alloc&) {
        return {FailureKind::kEnvironment, "out of memory"};
    } catch (const std::exception& error) {
        return {FailureKind::kInternal, error.what()};
    } catch (...) {
        return {FailureKind::kInternal, "an exception that is no std::exception"};
    }
}

void RunMonitor::add_threads(std::size_t count) {
    const std::lock_guard lock(mutex_);
    threads_ += count;
}

void RunMonitor::explain_stuck_with(std::function<std::string()> explain) {
    const std::lock_guard lock(mutex_);
    explain_ = std::move(explain);
}

void RunMonitor::wait(Signal& signal, std::uint64_t target) {
    if (stopped()) throw RunStopped{};
    if (reached_soon(signal, target)) return;
    Waiting waiting{&signal, target, nullptr, nullptr};
    enter(waiting);
    signal.sleep(target, stopped_);
    leave(waiting);
    if (stopped()) throw RunStopped{};
}

void RunMonitor::fail(FailureKind kind, std::string message) {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    failure_ = {kind, std::move(message)};
    stop_locked();
}

void RunMonitor::fail(std::exception_ptr cause, const std::string& where) {
    try {
        std::rethrow_exception(std::move(cause));
    } catch (const RunStopped&) {
        return;
    } catch (...) {
        RunFailure failure = current_failure();
        if (!where.empty()) failure.message = where + ": " + failure.message;
        fail(failure.kind, std::move(failure.message));
    }
}

void RunMonitor::stop() {
    const std::lock_guard lock(mutex_);
    stop_locked();
}

std::optional<RunFailure> RunMonitor::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

void RunMonitor::throw_failure() const {
    const std::optional<RunFailure> failed = failure();
    if (!failed) return;
    switch (failed->kind) {
        case FailureKind::kInput:
            throw InputError(failed->message);
        case FailureKind::kEnvironment:
            throw EnvironmentError(failed->message);
        case FailureKind::kInternal:
            throw InternalError(failed->message);
    }
}

// Whoever comes last asks whether the run is stuck: nobody else moves then, and all waits are in the list.
void RunMonitor::enter(Waiting& waiting) {
    const std::lock_guard lock(mutex_);
    waiting.next = first_;
    if (first_ != nullptr) first_->before = &waiting;
    first_ = &waiting;
    ++waiting_;
    if (stopped_ || !stuck()) return;
    failure_ = {FailureKind::kInternal,
                explain_ ? "the step is stuck: " + explain_() : "the step is stuck: every thread waits for another"};
    stop_locked();
}

void RunMonitor::leave(Waiting& waiting) {
    const std::lock_guard lock(mutex_);
    (waiting.before != nullptr ? waiting.before->next : first_) = waiting.next;
    if (waiting.next != nullptr) waiting.next->before = waiting.before;
    --waiting_;
}

// A thread that has been called but has not woken up yet is still in the list: its wait has ended all the same.
bool RunMonitor::stuck() const {
    if (threads_ == 0 || waiting_ != threads_) return false;
    for (const Waiting* w = first_; w != nullptr; w = w->next)
        if (w->signal->reached(w->target)) return false;
    return true;
}

// Waits that begin later see `stopped_` before they sleep.
void RunMonitor::stop_locked() {
    stopped_.store(true, std::memory_order_seq_cst);
    for (const Waiting* w = first_; w != nullptr; w = w->next) w->signal->ring();
}

}  // namespace sluice
