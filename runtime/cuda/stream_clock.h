// Handed to the function that puts an op on its stream: the stream, and a mark at the end of every kernel.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "runtime/cuda/stream_events.h"
#include "schedule/schedule.h"

namespace sluice::cuda {

// A compute op calls lap() after every entry of its chain, as runtime/kernel_clock.h asks.
class StreamClock {
public:
    StreamClock(Stream stream, const Events& events, std::size_t first, std::size_t count)
        : stream_(stream), events_(events), first_(first), count_(count) {}

    Stream stream() const { return stream_; }
    void lap() {
        if (laps_ < count_) record(events_[first_ + laps_], stream_);
        ++laps_;
    }
    std::size_t laps() const { return laps_; }

private:
    Stream stream_;
    const Events& events_;
    std::size_t first_, count_, laps_ = 0;
};

// Puts all work of an op on the clock's stream and returns: of ops that compute or talk to other ranks. Called by the
// rank's thread, which a talking op may block until its partners have come to theirs.
using IssueOp = std::function<void(const Op& op, StreamClock& clock)>;

}  // namespace sluice::cuda
