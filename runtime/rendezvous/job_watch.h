// Whether a job still moves: what process 0 hears of the others, and when. Pure, so that it is tested without time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/step_progress.h"

namespace sluice {

struct WatchLimits {
    std::chrono::milliseconds silence{4000};  // a process that says nothing for so long is lost
    std::chrono::milliseconds stall{5000};    // when no op ends anywhere for so long the job is stuck; 0: never
};

// Of a process, by its name, that has said nothing for so long.
std::string silence_message(std::string_view name, std::chrono::steady_clock::duration time);

class JobWatch {
public:
    using Time = std::chrono::steady_clock::time_point;

    // `names` by process: "rank 3".
    JobWatch(std::vector<std::string> names, WatchLimits limits, Time now);

    void heard(std::uint32_t process, Time at);
    void progressed(std::uint32_t process, const StepProgress& progress, Time at);  // heard, too
    void leave(std::uint32_t process);  // done or known to be lost: not expected to say anything

    struct Alarm {
        std::uint32_t process = 0;  // the lost one; of a stuck job the one that has been still for longest
        bool lost = false;
        std::string message;  // names it
    };
    // What is wrong now. Process 0 itself is never lost.
    std::optional<Alarm> check(Time now) const;

private:
    struct Watched {
        std::string name;
        bool left = false;
        StepProgress progress;
        Time heard, moved;
    };
    std::optional<Alarm> stall(Time now) const;

    std::vector<Watched> watched_;
    WatchLimits limits_;
};

}  // namespace sluice
