#include "runtime/rendezvous/watched_run.h"

#include <utility>

namespace sluice {
namespace {

constexpr std::chrono::milliseconds kForProgress{20};   // several times a second: a late answer is there the next time
constexpr std::chrono::milliseconds kForInFlight{200};  // once, for the job's last line

}  // namespace

WatchedRun::WatchedRun(std::string name, JobRun run)
    : name_(std::move(name)), run_(std::move(run)), look_([this] { return look(); }) {}

WatchedRun::Look WatchedRun::look() const { return {run_.ended_ops(), run_.in_flight()}; }

StepProgress WatchedRun::progress() {
    look_.ask(kForProgress);
    return {run_.in_step(), false, look_.last().ended_ops};
}

std::string WatchedRun::in_flight() {
    const bool answered = look_.ask(kForInFlight);
    const std::string last = look_.last().in_flight;
    if (answered) return last;
    return name_ + ": the device does not answer" + (last.empty() ? last : ", when it last did: " + last);
}

std::optional<RunFailure> WatchedRun::failure() const { return run_.failure ? run_.failure() : std::nullopt; }

void WatchedRun::stop(FailureKind kind, const std::string& message) {
    if (!std::exchange(stopped_, true)) run_.stop(kind, message);
}

void WatchedRun::abandon(const JobVerdict& verdict) {
    if (!std::exchange(abandoned_, true) && run_.abandon) run_.abandon(verdict);
}

}  // namespace sluice
