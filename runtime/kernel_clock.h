// What an op does is given to the runtime from outside, as a function; the clock takes the time of its kernels.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "schedule/schedule.h"

namespace sluice {

// Nanoseconds of the steady clock.
inline std::int64_t steady_now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Handed to the function that runs an op. A compute op calls lap() at the end of every entry of its chain (an entry of
// `count` equal calls is one lap); other ops never do. The runtime checks the number: a wrong one is an InternalError
// that names the op.
class KernelClock {
public:
    // Laps are written to `ends`, one per kernel, made beforehand.
    explicit KernelClock(std::span<std::int64_t> ends) : ends_(ends) {}

    void lap() {
        if (laps_ < ends_.size()) ends_[laps_] = steady_now();
        ++laps_;
    }
    std::size_t laps() const { return laps_; }

private:
    std::span<std::int64_t> ends_;
    std::size_t laps_ = 0;
};

// Runs one op to its end, on the thread of its lane: compute, sends, receives, collectives; copies are the backend's
// own. Called for ops of all ranks and lanes at the same time. What it throws ends the run with its message. It must
// not allocate: everything it needs for an op is found by the op's id.
using RunOp = std::function<void(const Op& op, KernelClock& clock)>;

}  // namespace sluice
