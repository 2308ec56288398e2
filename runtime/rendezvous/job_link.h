// The thread that keeps a process's connections: signs of life, clocks, failures, and the parcels of calls.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/rendezvous/connection.h"
#include "runtime/rendezvous/job_failure.h"
#include "runtime/rendezvous/job_member.h"
#include "runtime/rendezvous/job_watch.h"
#include "runtime/rendezvous/join_job.h"
#include "runtime/rendezvous/watched_run.h"

namespace sluice {

class JobLink {
public:
    using Clock = std::chrono::steady_clock;

    JobLink(std::uint32_t process, JoinedJob job, const JobLimits& limits);
    ~JobLink();  // takes leave
    JobLink(const JobLink&) = delete;
    JobLink& operator=(const JobLink&) = delete;

    // Process 0 has a link to every other process; the others have one, to process 0. Links are numbered by the
    // process at the other end.
    void send(std::uint32_t to, std::vector<std::byte> parcel);
    // Throws the verdict when the job fails.
    std::vector<std::byte> receive(std::uint32_t from);

    struct RoundTrip {
        std::int64_t sent = 0, answered = 0, received = 0;  // of this clock, of the other one, of this one
    };
    std::vector<RoundTrip> round_trips(std::uint32_t to, std::size_t count);  // at process 0

    void watch(JobRun run);
    void unwatch();  // returns when nobody calls the run any more

    void begin_failure(FailureKind kind, const std::string& message);  // of this process
    std::optional<JobVerdict> verdict();                               // waits for it, where there is a failure

    const std::vector<std::string>& names() const { return names_; }

private:
    struct Link {
        std::uint32_t process = 0;
        Connection connection;
        bool left = false;      // has taken leave
        bool reported = false;  // after a failure: has said what was in flight there
        std::deque<std::vector<std::byte>> parcels;
        std::size_t trips_left = 0;
        bool trip_due = false;
        std::vector<RoundTrip> trips;
    };

    void run();
    void wait_for_events();
    void serve(Link& link);
    void handle(Link& link, const Frame& frame);
    void handle_at_root(Link& link, const Frame& frame);
    void handle_elsewhere(Link& link, const Frame& frame);
    void lose(Link& link, const std::string& message);
    void tick();
    void notice_failure();
    void give_signs_of_life();
    void watch_others();
    void fail_job(FailureKind kind, const std::string& message);
    void stop_run(FailureKind kind, const std::string& message);
    void tell_all(FrameKind what, const JobVerdict& verdict);
    void conclude_when_reported();
    void conclude(JobVerdict verdict);
    std::string in_flight();
    StepProgress progress();
    std::string named(const std::string& message) const;
    void abandon_when_stuck();
    bool finished() const;
    Link& link_to(std::uint32_t process);
    void throw_if_over(std::unique_lock<std::mutex>& lock);
    void wake();

    const std::uint32_t process_;
    const std::vector<std::string> names_;
    const JobLimits limits_;
    Descriptor bell_;  // written to wake the thread
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Link> links_;
    JobWatch watch_;  // at process 0
    std::optional<WatchedRun> run_;
    bool run_ends_ = false;       // it is about to be watched no more
    std::string last_in_flight_;  // of a run that is watched no more
    bool waiting_ = false;        // the caller, in receive()
    std::optional<JobFailure> failure_;  // told by process 0 at the others
    std::optional<JobVerdict> verdict_;
    Clock::time_point verdict_at_, signed_at_, leaving_at_;
    bool leaving_ = false;
    std::thread thread_;  // last
};

}  // namespace sluice
