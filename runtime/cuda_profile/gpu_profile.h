// Measures the current GPU as the CUDA backend uses it. docs/profile.md says what is measured how.
#pragma once

#include "runtime/profile/cpu_profile.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

// Device memory that measuring takes at most.
inline constexpr Bytes kProfileMemory = 20_GiB;

// About two minutes; `quick` less than half a minute. Throws EnvironmentError without a GPU, without kProfileMemory
// free on it, or where a library or the driver refuses: then it says what was being measured.
GpuFigures profile_gpu(bool quick, const ProfileProgress& progress);

}  // namespace sluice::cuda
