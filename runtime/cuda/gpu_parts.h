// A GPU cut into parts of equally many multiprocessors (green contexts): kernels of one part never run on those of
// another, so ranks that share the GPU compute truly at the same time. Memory, its bandwidth and caches, the copy
// engines and the PCIe link are shared, and so is power.
#pragma once

#include "runtime/cuda/device_part.h"

namespace sluice::cuda {

// Multiprocessors of each part: as many as `parts` parts of a GPU with `all` can have in multiples of `step` and of at
// least `least`, what the driver asks for. 0: no such parts.
int multiprocessors_of_part(int all, int parts, int least, int step);

// Rank r runs on part r of GPU `device`, cut at the first call, once for all: parts of separate cuts could overlap. The
// parts must outlive all streams made of them, which their holders see to. Throws EnvironmentError where the GPU or the
// driver does not do it, InputError for a rank beyond the parts or a number of parts that this GPU cannot be cut into.
//
// Nothing guarantees that kernels of different parts run at the same time: streams share hardware queues, 8 unless
// CUDA_DEVICE_MAX_CONNECTIONS says otherwise. Call raise_stream_connections() before anything else of CUDA.
DevicePartMaker gpu_parts(int parts, int device = 0);

// As many hardware queues as there are, unless the user has chosen a number: with fewer a stream waits for work of
// another that happens to share its queue. Has no effect once CUDA has begun.
void raise_stream_connections();

}  // namespace sluice::cuda
