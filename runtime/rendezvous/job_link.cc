#include "runtime/rendezvous/job_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/kernel_clock.h"
#include "runtime/rendezvous/frame_contents.h"
#include "runtime/rendezvous/process_name.h"
#include "runtime/rendezvous/verdict_frame.h"

namespace sluice {
namespace {

constexpr std::size_t kMostParcels = 2;  // a call is answered before the next one
constexpr std::chrono::milliseconds kTick{50};

Descriptor make_bell() {
    Descriptor bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell) throw EnvironmentError(fmt::format("eventfd: {}", std::strerror(errno)));
    return bell;
}

}  // namespace

JobLink::JobLink(std::uint32_t process, JoinedJob job, const JobLimits& limits)
    : process_(process),
      names_(std::move(job.names)),
      limits_(limits),
      bell_(make_bell()),
      watch_(names_, limits.watch, Clock::now()) {
    for (std::size_t i = 0; i < job.connections.size(); ++i) {
        Link& link = links_.emplace_back(Link{0, std::move(job.connections[i]), false, false, {}, 0, false, {}});
        link.process = process == 0 ? static_cast<std::uint32_t>(i + 1) : 0;
    }
    thread_ = std::thread([this] { run(); });
}

JobLink::~JobLink() {
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
        leaving_at_ = Clock::now();
        for (Link& link : links_) {
            if (!link.connection.open()) continue;
            if (!failure_ && !verdict_) link.connection.queue(FrameKind::kLeave);
        }
    }
    wake();
    thread_.join();
}

void JobLink::wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(bell_.get(), &one, sizeof one);  // full: it rings already
}

JobLink::Link& JobLink::link_to(std::uint32_t process) {
    for (Link& link : links_)
        if (link.process == process) return link;
    throw InternalError(fmt::format("no connection to process {}", process));
}

// ---- For the caller
// --------------------------------------------------------------------------------------------------

void JobLink::send(std::uint32_t to, std::vector<std::byte> parcel) {
    {
        std::unique_lock lock(mutex_);
        throw_if_over(lock);
        Link& link = link_to(to);
        if (link.connection.open()) link.connection.queue(FrameKind::kCall, parcel);
    }
    wake();
}

std::vector<std::byte> JobLink::receive(std::uint32_t from) {
    std::unique_lock lock(mutex_);
    Link& link = link_to(from);
    waiting_ = true;
    changed_.wait(lock, [&] { return failure_ || verdict_ || !link.parcels.empty() || link.left; });
    waiting_ = false;
    throw_if_over(lock);
    if (link.parcels.empty()) {
        fail_job(FailureKind::kInternal,
                 fmt::format("{} {} ended, but {} still {} for it", names_[from], has_or_have(names_[from]),
                             names_[process_], names_many(names_[process_]) ? "wait" : "waits"));
        wake();
        throw_if_over(lock);
    }
    std::vector<std::byte> parcel = std::move(link.parcels.front());
    link.parcels.pop_front();
    return parcel;
}

void JobLink::throw_if_over(std::unique_lock<std::mutex>& lock) {
    if (!failure_ && !verdict_) return;
    changed_.wait(lock, [&] { return verdict_.has_value(); });
    throw_verdict(*verdict_);
}

std::vector<JobLink::RoundTrip> JobLink::round_trips(std::uint32_t to, std::size_t count) {
    std::unique_lock lock(mutex_);
    throw_if_over(lock);
    Link& link = link_to(to);
    link.trips.clear();
    link.trips_left = count;
    link.trip_due = true;
    wake();
    changed_.wait(lock, [&] { return failure_ || verdict_ || link.trips_left == 0 || link.left; });
    throw_if_over(lock);
    return link.trips;
}

void JobLink::watch(JobRun run) {
    const std::lock_guard lock(mutex_);
    run_.emplace(names_[process_], std::move(run));
    run_ends_ = false;
    last_in_flight_.clear();
    if (failure_) stop_run(failure_->kind(), failure_->message());
}

// Without the lock where it may wait for the device: the thread has to be able to end the process meanwhile.
void JobLink::unwatch() {
    {
        const std::lock_guard lock(mutex_);
        last_in_flight_ = in_flight();
        run_ends_ = true;
    }
    run_->end();
    const std::lock_guard lock(mutex_);
    run_.reset();
}

// Of a run that is being unwound, what it did last.
std::string JobLink::in_flight() {
    return run_ && !run_ends_ ? JobFailure::cut_in_flight(run_->in_flight(), names_.size()) : last_in_flight_;
}

StepProgress JobLink::progress() {
    StepProgress progress = run_ ? run_->progress() : StepProgress{};
    progress.waiting = waiting_ && !progress.in_step;
    return progress;
}

void JobLink::begin_failure(FailureKind kind, const std::string& message) {
    {
        const std::lock_guard lock(mutex_);
        fail_job(kind, named(message));
    }
    wake();
}

std::string JobLink::named(const std::string& message) const {
    const bool is_named = names_.size() == 1 || message.starts_with(names_[process_]);
    return is_named ? message : fmt::format("{}: {}", names_[process_], message);
}

std::optional<JobVerdict> JobLink::verdict() {
    std::unique_lock lock(mutex_);
    if (!failure_ && !verdict_) return std::nullopt;
    changed_.wait(lock, [&] { return verdict_.has_value(); });
    return verdict_;
}

// ---- The thread
// ------------------------------------------------------------------------------------------------------

void JobLink::run() {
    for (;;) {
        wait_for_events();
        const std::lock_guard lock(mutex_);
        for (Link& link : links_)
            if (link.connection.open()) serve(link);
        tick();
        changed_.notify_all();
        if (finished()) return;
    }
}

void JobLink::wait_for_events() {
    std::vector<pollfd> all = {{bell_.get(), POLLIN, 0}};
    {
        const std::lock_guard lock(mutex_);
        for (const Link& link : links_) {
            const bool writes = link.connection.has_output() || link.trip_due;
            if (link.connection.open())
                all.push_back({link.connection.descriptor(), static_cast<short>(POLLIN | (writes ? POLLOUT : 0)), 0});
        }
    }
    poll(all.data(), all.size(), static_cast<int>(kTick.count()));
    std::uint64_t rung = 0;
    [[maybe_unused]] const ssize_t got = read(bell_.get(), &rung, sizeof rung);
}

void JobLink::serve(Link& link) {
    const std::string& name = names_[link.process];
    const bool open = link.connection.receive();
    if (process_ == 0) watch_.heard(link.process, link.connection.last_heard());  // a large parcel comes in pieces
    try {
        while (const std::optional<Frame> frame = link.connection.next()) handle(link, *frame);
    } catch (const InputError& error) {
        return lose(link, fmt::format("{} {} not understood: {}", name, is_or_are(name), error.what()));
    }
    if (link.trip_due) {
        link.trip_due = false;
        link.trips.push_back({steady_now(), 0, 0});
        link.connection.queue(FrameKind::kClock);
    }
    if (!open || !link.connection.send())
        return lose(link, fmt::format("{} {} lost: its connection ended, so the process was killed or crashed", name,
                                      is_or_are(name)));
    if (leaving_ && !link.connection.has_output()) link.connection.end_output();
}

void JobLink::handle(Link& link, const Frame& frame) {
    switch (frame.kind) {
        case FrameKind::kCall:
            if (link.parcels.size() >= kMostParcels) throw InputError("it calls before it was answered");
            link.parcels.push_back(frame.payload);
            return;
        case FrameKind::kLeave:
            link.left = true;
            if (process_ == 0) watch_.leave(link.process);
            return;
        default:
            return process_ == 0 ? handle_at_root(link, frame) : handle_elsewhere(link, frame);
    }
}

void JobLink::handle_at_root(Link& link, const Frame& frame) {
    switch (frame.kind) {
        case FrameKind::kProgress:
            return watch_.progressed(link.process, decode_progress(frame.payload), Clock::now());
        case FrameKind::kClockIs:
            if (link.trips_left == 0) throw InputError("it tells a time that nobody asked for");
            link.trips.back().answered = decode_time(frame.payload);
            link.trips.back().received = steady_now();
            link.trip_due = --link.trips_left > 0;
            return;
        case FrameKind::kFailure: {
            const JobVerdict told = decode_verdict(frame.payload);
            return fail_job(told.kind, told.line);
        }
        case FrameKind::kInFlight: {
            std::string text = decode_text(frame.payload, kLargestNotice);
            link.reported = true;
            if (failure_) failure_->report(link.process, std::move(text));
            return;
        }
        default:
            throw InputError(fmt::format("it sent a {}", name(frame.kind)));
    }
}

void JobLink::handle_elsewhere(Link& link, const Frame& frame) {
    switch (frame.kind) {
        case FrameKind::kHeartbeat:
            return;
        case FrameKind::kClock:
            return link.connection.queue(FrameKind::kClockIs, encode_time(steady_now()));
        case FrameKind::kStop: {
            const JobVerdict told = decode_verdict(frame.payload);
            if (!failure_) failure_.emplace(told.kind, told.line, names_.size(), Clock::now());
            link.connection.queue(FrameKind::kInFlight, encode_text(in_flight()));
            return stop_run(told.kind, told.line);
        }
        case FrameKind::kVerdict:
            return conclude(decode_verdict(frame.payload));
        default:
            throw InputError(fmt::format("it sent a {}", name(frame.kind)));
    }
}

// Whoever took leave, or is ending with a verdict, is expected to go.
void JobLink::lose(Link& link, const std::string& message) {
    link.connection.close();
    if (process_ == 0) watch_.leave(link.process);
    const bool expected = link.left || verdict_ || leaving_;
    link.left = link.reported = true;
    if (!expected) fail_job(FailureKind::kEnvironment, message);
}

void JobLink::tick() {
    if (!leaving_) {
        notice_failure();
        give_signs_of_life();
        watch_others();
    }
    conclude_when_reported();
    abandon_when_stuck();
}

// Whoever waits for the run tells of its failure when it has been unwound, which may take long, or never end.
void JobLink::notice_failure() {
    if (failure_ || verdict_ || !run_) return;
    if (const std::optional<RunFailure> failure = run_->failure()) fail_job(failure->kind, named(failure->message));
}

void JobLink::give_signs_of_life() {
    const Clock::time_point now = Clock::now();
    if (now - signed_at_ < limits_.heartbeat) return;
    signed_at_ = now;
    const StepProgress own = progress();
    if (process_ == 0) watch_.progressed(0, own, now);
    for (Link& link : links_) {
        if (!link.connection.open()) continue;
        if (process_ == 0)
            link.connection.queue(FrameKind::kHeartbeat);
        else
            link.connection.queue(FrameKind::kProgress, encode(own));
        link.connection.send();
    }
}

void JobLink::watch_others() {
    if (failure_ || verdict_) return;
    if (process_ == 0) {
        const std::optional<JobWatch::Alarm> alarm = watch_.check(Clock::now());
        if (alarm) fail_job(FailureKind::kEnvironment, alarm->message);
        return;
    }
    Link& root = links_.front();
    if (root.left || Clock::now() - root.connection.last_heard() <= limits_.watch.silence) return;
    lose(root, silence_message(names_[0], Clock::now() - root.connection.last_heard()));
}

// ---- Failure
// ---------------------------------------------------------------------------------------------------------

void JobLink::fail_job(FailureKind kind, const std::string& message) {
    if (failure_ || verdict_) return;
    failure_.emplace(kind, message, names_.size(), Clock::now());
    failure_->report(process_, in_flight());
    tell_all(process_ == 0 ? FrameKind::kStop : FrameKind::kFailure, {kind, failure_->message()});
    stop_run(kind, failure_->message());
    changed_.notify_all();
}

void JobLink::stop_run(FailureKind kind, const std::string& message) {
    if (run_) run_->stop(kind, message);
}

// Process 0 waits for what all were doing; the others for what process 0 then says, a little longer.
void JobLink::conclude_when_reported() {
    if (!failure_ || verdict_) return;
    const Clock::duration since = failure_->age(Clock::now());
    if (process_ == 0) {
        const bool all = std::all_of(links_.begin(), links_.end(),
                                     [](const Link& link) { return link.reported || !link.connection.open(); });
        if (!all && since < limits_.reports) return;
        tell_all(FrameKind::kVerdict, failure_->verdict());
        return conclude(failure_->verdict());
    }
    if (!links_.front().connection.open() || since > limits_.reports + std::chrono::seconds(1))
        conclude(failure_->verdict());
}

void JobLink::tell_all(FrameKind what, const JobVerdict& verdict) {
    for (Link& link : links_)
        if (link.connection.open()) link.connection.queue(what, encode(verdict)), link.connection.send();
}

void JobLink::conclude(JobVerdict verdict) {
    if (verdict_) return;
    if (!failure_) stop_run(verdict.kind, verdict.line);
    verdict_ = std::move(verdict);
    verdict_at_ = Clock::now();
}

void JobLink::abandon_when_stuck() {
    if (!verdict_ || leaving_ || !run_ || Clock::now() - verdict_at_ < limits_.unwinding) return;
    run_->abandon(*verdict_);
}

// When all has been said and the others have heard it.
bool JobLink::finished() const {
    if (!leaving_) return false;
    if (Clock::now() - leaving_at_ > limits_.farewell) return true;
    if (failure_ && !verdict_) return false;
    return std::none_of(links_.begin(), links_.end(), [](const Link& link) { return link.connection.open(); });
}

}  // namespace sluice
