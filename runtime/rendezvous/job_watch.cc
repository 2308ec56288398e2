#include "runtime/rendezvous/job_watch.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/rendezvous/process_name.h"

namespace sluice {
namespace {

double seconds(std::chrono::steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

std::string silence_message(std::string_view name, std::chrono::steady_clock::duration time) {
    return fmt::format(
        "{} {} said nothing for {:.1f} s: the machine or the network is down, or the process was stopped", name,
        has_or_have(name), seconds(time));
}

JobWatch::JobWatch(std::vector<std::string> names, WatchLimits limits, Time now) : limits_(limits) {
    for (std::string& name : names) watched_.push_back({std::move(name), false, {}, now, now});
}

void JobWatch::heard(std::uint32_t process, Time at) { watched_[process].heard = at; }

void JobWatch::progressed(std::uint32_t process, const StepProgress& progress, Time at) {
    Watched& w = watched_[process];
    w.heard = at;
    if (w.progress == progress) return;
    w.progress = progress;
    w.moved = at;
}

void JobWatch::leave(std::uint32_t process) { watched_[process].left = true; }

std::optional<JobWatch::Alarm> JobWatch::check(Time now) const {
    for (std::uint32_t p = 1; p < watched_.size(); ++p) {
        const Watched& w = watched_[p];
        if (!w.left && now - w.heard > limits_.silence) return Alarm{p, true, silence_message(w.name, now - w.heard)};
    }
    return stall(now);
}

// One that is outside a step may still be on its way to what the others wait for: then nobody is stuck. Unless it
// waits itself.
std::optional<JobWatch::Alarm> JobWatch::stall(Time now) const {
    if (limits_.stall.count() == 0) return std::nullopt;
    Time latest = Time::min();
    std::optional<std::uint32_t> stillest;
    for (std::uint32_t p = 0; p < watched_.size(); ++p) {
        const Watched& w = watched_[p];
        if (w.left) continue;
        if (!w.progress.in_step && !w.progress.waiting) return std::nullopt;
        if (!w.progress.in_step) continue;
        latest = std::max(latest, w.moved);
        if (!stillest || w.moved < watched_[*stillest].moved) stillest = p;
    }
    if (!stillest || now - latest <= limits_.stall) return std::nullopt;
    const Watched& w = watched_[*stillest];
    return Alarm{*stillest, false,
                 fmt::format("no op of any rank has ended for {:.1f} s: the step is stuck; {} {} been still for "
                             "longest, {:.1f} s",
                             seconds(now - latest), w.name, has_or_have(w.name), seconds(now - w.moved))};
}

}  // namespace sluice
