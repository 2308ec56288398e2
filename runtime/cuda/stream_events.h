// A stream and timed events, owned.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cuda/device_views.h"

struct CUevent_st;

namespace sluice::cuda {

using Event = CUevent_st*;

class OwnedStream {
public:
    OwnedStream();  // does not wait for the default stream, nor that for it
    explicit OwnedStream(Stream stream) : stream_(stream) {}  // takes it over
    ~OwnedStream();
    OwnedStream(const OwnedStream&) = delete;
    OwnedStream& operator=(const OwnedStream&) = delete;

    Stream get() const { return stream_; }
    // Returns when all work that was put on it has ended. Throws EnvironmentError for work that failed.
    void wait() const;

private:
    Stream stream_ = nullptr;
};

// A number of events that take the time when they happen.
class Events {
public:
    explicit Events(std::size_t count);
    ~Events();
    Events(const Events&) = delete;
    Events& operator=(const Events&) = delete;

    Event operator[](std::size_t i) const { return events_[i]; }
    std::size_t size() const { return events_.size(); }

private:
    std::vector<Event> events_;
};

void record(Event, Stream);
// Whether it has; false, too, where the device has failed.
bool happened(Event);
void wait_for(Stream, Event);
// Nanoseconds from one to the other, both past; resolution about 0.5 us, of a minute about 8 us (CUDA gives a float).
std::int64_t nanoseconds_between(Event from, Event to);

}  // namespace sluice::cuda
