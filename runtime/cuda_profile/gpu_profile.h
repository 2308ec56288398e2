// Measures the current GPU as the CUDA backend uses it. docs/profile.md says what is measured how.
#pragma once

#include "runtime/profile/cpu_profile.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

// Device memory that measuring takes at most.
inline constexpr Bytes kProfileMemory = 20_GiB;

// Of a part of a GPU: each of the others, while it is busy.
inline constexpr Bytes kPartLoadMemory = 2_GiB;

// About two minutes; `quick` less than half a minute. With `parts` above 1 the GPU is cut into so many, and kernels are
// those of the first while the others compute. Throws EnvironmentError without a GPU, without the memory above free on
// it, or where a library or the driver refuses: then it says what was being measured.
GpuFigures profile_gpu(bool quick, int parts, const ProfileProgress& progress);

}  // namespace sluice::cuda
