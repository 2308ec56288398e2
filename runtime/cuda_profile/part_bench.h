// Times what a part of a GPU has besides its kernels' rates: what others leave of the memory's bandwidth, and copies to
// another part.
#pragma once

#include <memory>
#include <vector>

#include "runtime/cuda/device_part.h"
#include "runtime/cuda_profile/gpu_timer.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

// The first of `parts`, on whose stream `timer` is; two at least. The others must be idle: they get a load of their own
// for some of it.
GpuPartFigures measure_part(const std::vector<std::shared_ptr<const DevicePart>>& parts, GpuTimer& timer,
                            Seconds at_least);

}  // namespace sluice::cuda
