// What a measurement has to name of the GPU it was made on.
#pragma once

#include <string>

#include "base/units.h"

namespace sluice::cuda {

// Name, memory and driver of the GPU, versions of the libraries, for provenance.
struct GpuDescription {
    std::string name;
    std::string driver, runtime, cublas, cudnn;  // versions
    Bytes memory{};
    int multiprocessors = 0;
    Bytes l2{};
    BytesPerSecond memory_peak{};  // by the memory's clock and the width of its bus; 0: the driver does not tell
};
// Of the current device. Throws EnvironmentError where there is none.
GpuDescription describe_gpu();

}  // namespace sluice::cuda
