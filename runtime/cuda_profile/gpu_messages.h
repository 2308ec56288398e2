// Measures what several GPUs of this machine do together: messages between them, alone and beside copies to the host,
// a product beside collectives, copies of all at once.
#pragma once

#include "runtime/cuda/transport.h"
#include "runtime/profile/cpu_profile.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

// On GPUs 0 to gpus - 1, two at least, of which each needs kMessageMemory and as much pinned host memory as
// kMessageHostMemory. Throws EnvironmentError where a GPU or the transport refuses, InputError where there are fewer.
GpuMessages profile_messages(int gpus, const TransportMaker& transport, bool quick, const ProfileProgress& progress);

inline constexpr Bytes kMessageMemory = 4_GiB, kMessageHostMemory = 512_MiB;

}  // namespace sluice::cuda
