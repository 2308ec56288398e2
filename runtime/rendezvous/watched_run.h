// The run that a job watches, as the thread that keeps the connections sees it: which never waits for the run for more
// than a moment, whatever becomes of its devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/rendezvous/asked_aside.h"
#include "runtime/rendezvous/job_member.h"

namespace sluice {

class WatchedRun {
public:
    WatchedRun(std::string name, JobRun run);  // of the process: "rank 3"

    // While the device does not answer no op has ended since it last did.
    StepProgress progress();
    // What the device says within a moment; else that it does not answer, and what was in flight when it last did.
    std::string in_flight();
    std::optional<RunFailure> failure() const;
    void stop(FailureKind kind, const std::string& message);  // the first time
    void abandon(const JobVerdict& verdict);                  // the first time

    // Before it goes: nobody looks at the device any more when this returns. While a look does not end it does not
    // return either, and the others may still be called.
    void end() { look_.end(); }

private:
    struct Look {  // at the device
        std::uint64_t ended_ops = 0;
        std::string in_flight;
    };
    Look look() const;

    const std::string name_;
    const JobRun run_;
    bool stopped_ = false, abandoned_ = false;
    AskedAside<Look> look_;  // last: it refers to run_
};

}  // namespace sluice
