#include "runtime/cuda/stream_events.h"

#include <cuda_runtime_api.h>

#include <cmath>

#include "runtime/cuda/check.h"

namespace sluice::cuda {

OwnedStream::OwnedStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream"); }
OwnedStream::~OwnedStream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
}
void OwnedStream::wait() const { check(cudaStreamSynchronize(stream_), "work on a stream"); }

Events::Events(std::size_t count) : events_(count, nullptr) {
    for (Event& event : events_) check(cudaEventCreateWithFlags(&event, cudaEventDefault), "an event");
}
Events::~Events() {
    for (const Event event : events_)
        if (event != nullptr) cudaEventDestroy(event);
}

void record(Event event, Stream stream) { check(cudaEventRecord(event, stream), "record an event"); }
void wait_for(Stream stream, Event event) { check(cudaStreamWaitEvent(stream, event, 0), "wait for an event"); }

bool happened(Event event) { return cudaEventQuery(event) == cudaSuccess; }

std::int64_t nanoseconds_between(Event from, Event to) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, from, to), "time between events");
    return std::llround(static_cast<double>(milliseconds) * 1e6);
}

}  // namespace sluice::cuda
