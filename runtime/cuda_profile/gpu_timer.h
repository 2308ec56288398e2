// How long a call takes on the device, from several samples.
#pragma once

#include <cstdint>
#include <functional>

#include "base/units.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/stream_events.h"
#include "runtime/cuda/stream_stopwatch.h"
#include "runtime/profile/measurement.h"

namespace sluice::cuda {

class GpuTimer {
public:
    // On whose stream calls put their work, and so on which part of the GPU: the default one is of the whole.
    explicit GpuTimer(Stream stream = nullptr);
    Stream stream() const { return stream_; }

    // Of a call that puts its work on stream(), again and again for about `at_least` in five samples. A call that takes
    // longer than 0.1 s is timed once. Very short calls are all put on the stream before the first begins, so that the
    // host's time to do so does not count.
    Measurement time(const std::function<void()>& call, Seconds at_least);

    // Before each sample of time() `load` is called as often as it takes to keep the stream busy for about `least`: the
    // sample begins at the clock of a GPU that has had that to do. Until the next call of this; an empty load: none.
    void keep_busy(std::function<void()> load, Seconds least);

    // The same as `time` for calls on any stream that are all put there beforehand: `samples` times `calls` of them,
    // with an event between samples. Waits.
    Measurement time_queued(Stream, std::size_t samples, std::size_t calls, const std::function<void()>& call);

    // Nothing that is put on the stream from now on begins within this time.
    void hold(Stream, Seconds);

private:
    Measurement time_beside_load(std::size_t samples, std::size_t calls, const std::function<void()>& call);

    std::function<void()> load_;
    std::size_t loads_ = 0;  // before a sample
    const Stream stream_;
    DeviceMemory mark_;
    StreamStopwatch stopwatch_;
};

}  // namespace sluice::cuda
