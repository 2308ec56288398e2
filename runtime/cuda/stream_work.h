// What a message between ranks of one process is made of, on streams: events, copies and sums.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/cuda/stream_events.h"
#include "runtime/cuda/transport.h"

namespace sluice::cuda {

// A GPU's is gpu_stream_work(); tests have one that runs the streams in an order of their own. Called by several
// threads at once. Nothing but new_event() allocates.
class StreamWork {
public:
    virtual ~StreamWork() = default;

    // Of the current GPU. Lives as long as this.
    virtual Event new_event() = 0;
    virtual void record(Event, Stream) = 0;    // the stream is one of the event's GPU
    virtual void wait_for(Stream, Event) = 0;  // for what is recorded in it now, on any GPU
    virtual void copy(Stream, const std::byte* from, std::byte* to, std::size_t bytes) = 0;
    // Every `into` becomes the sum of all `from` (sum_members.h).
    virtual void sum(Stream, ElementType, std::span<const std::byte* const> from, std::span<std::byte* const> into,
                     std::size_t count) = 0;
};

// For streams of these GPUs, which are made to reach each other's memory. Throws EnvironmentError where two cannot.
std::unique_ptr<StreamWork> gpu_stream_work(std::span<const int> devices);

}  // namespace sluice::cuda
