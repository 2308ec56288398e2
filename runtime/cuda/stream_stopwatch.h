// Device time of what was put on a stream between two calls.
#pragma once

#include <memory>

#include "base/units.h"
#include "runtime/cuda/device_views.h"

struct CUevent_st;

namespace sluice::cuda {

class StreamStopwatch {
public:
    explicit StreamStopwatch(Stream);
    ~StreamStopwatch();
    StreamStopwatch(const StreamStopwatch&) = delete;
    StreamStopwatch& operator=(const StreamStopwatch&) = delete;

    void start();
    Seconds stop();  // waits until the work put on the stream since start() has ended; resolution about 0.5 us

private:
    Stream stream_;
    CUevent_st *begin_ = nullptr, *end_ = nullptr;
};

}  // namespace sluice::cuda
