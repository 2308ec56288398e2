// The processes of one job, in a star around process 0: they compare, gather and broadcast what is small, and end
// together when one of them fails, is killed, or when nothing moves any more.
//
// A thread of its own keeps the connections and watches the run; it answers while the caller computes. Of several
// processes or of one alone: then there is nobody to talk to, and the watch over the run is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/rendezvous/job_member.h"
#include "runtime/rendezvous/launch_place.h"

namespace sluice {

// What turns a process's clock (steady_now()) into that of process 0: add it.
struct ClockOffset {
    std::int64_t nanoseconds = 0;
    std::int64_t within = 0;  // at most so far off: half of the fastest round trip
};

class Rendezvous {
public:
    // Returns when all processes are there; throws as join_job() does.
    Rendezvous(const LaunchPlace& place, const JobMember& member, const JobLimits& limits = {});
    // Takes leave, which is no failure: whoever still waits for this process in a call then fails, not this one.
    ~Rendezvous();
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;

    std::uint32_t process() const;
    std::uint32_t processes() const;

    // Calls of all processes, in the same order everywhere, by one thread each; `what` is compared. They return when
    // process 0 has heard all, and move any number of bytes in pieces. Throw the verdict when the job fails.
    void barrier(std::string_view what);
    // Process 0's bytes; the others bring none.
    std::vector<std::byte> broadcast(std::string_view what, std::span<const std::byte> bytes);
    // Everybody's bytes, by process, at process 0; nothing elsewhere.
    std::vector<std::vector<std::byte>> gather(std::string_view what, std::span<const std::byte> bytes);

    // By process; at process 0, the others need not know. Costs some round trips.
    std::vector<ClockOffset> clock_offsets();

    // The run that is to be watched, until the object goes. One at a time.
    class Watch {
    public:
        Watch(Rendezvous& rendezvous, JobRun run);
        ~Watch();
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;

    private:
        Rendezvous& rendezvous_;
    };

    // This process has failed. Ends the job, and returns what all end with: where another one failed first, that.
    // Takes as long as the others need to say what they were doing, JobLimits::reports at most. `message` may already
    // name the rank.
    JobVerdict fail(FailureKind kind, const std::string& message);
    // Nothing while the job goes on; waits for the verdict where it has failed.
    std::optional<JobVerdict> verdict();

private:
    struct Exchanged {
        std::vector<std::byte> from_root;
        std::vector<std::vector<std::byte>> to_root;  // by process; at process 0
    };
    Exchanged exchange(std::string_view what, std::span<const std::byte> mine);
    bool exchange_as_root(std::string_view what, std::span<const std::byte> piece,
                          std::vector<std::vector<std::byte>>& gathered, bool more);

    struct State;
    std::unique_ptr<State> state_;
};

// Runs what the process is in the job for. When that throws the job has failed: all its processes end, and the verdict
// is thrown here as the error of its kind.
void run_in_job(Rendezvous& rendezvous, const std::function<void()>& run);

}  // namespace sluice
