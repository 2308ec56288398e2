// Which GPUs of its machine a process of several runs its ranks on.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "runtime/cuda/device_part.h"

namespace sluice::cuda {

// Processes of a machine take their GPUs one behind the other: the `position`-th of `process`'s `each` ranks. A process
// that sees exactly as many as it needs was given its own by the launcher. Throws InputError where there are too few.
int local_gpu(std::uint32_t process, std::size_t each, std::size_t position, int visible);

// For the ranks of this process. Throws EnvironmentError where CUDA finds no GPU.
DevicePartMaker local_gpus(std::uint32_t process, std::vector<Rank> local);

}  // namespace sluice::cuda
