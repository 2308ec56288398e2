// Times copies between host and device, compute beside them, and what stands between kernels.
#pragma once

#include <functional>
#include <string_view>

#include "base/units.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/cuda_profile/gpu_timer.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

class TransferBench {
public:
    // Pins host memory and takes the time of it: 4 GiB, or a sixteenth of what the host has. `quick`: 512 MiB.
    TransferBench(GpuTimer& timer, Bytes host_memory, bool quick);

    GpuCopies copies();
    // How much slower a product of 8192 x 8192 x 8192 is while copies go on, in one `gemms` prepares. On one of `parts`
    // parts of the GPU it takes about as many times longer.
    GpuInterference interference(Gemms& gemms, std::size_t parts = 1);

private:
    enum class Direction { kOut, kIn };
    void copy(Direction direction, Stream stream, Bytes size);
    Measurement alone(Direction direction, Bytes size);
    void both(GpuCopyRates& rates);
    Seconds start(const GpuCopyRates& rates);

    GpuTimer& timer_;
    const bool quick_;
    Seconds pinning_{};
    PinnedMemory host_;
    DeviceMemory device_;
    OwnedStream out_, in_;
};

// What an event between two kernels adds to the time of both: the backend records one after every kernel of a schedule.
Seconds event_gap(GpuTimer& timer);

}  // namespace sluice::cuda
