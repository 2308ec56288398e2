// A session on GPUs: bf16 with fp32 master weights. By default one rank on one GPU.
#pragma once

#include <optional>

#include "base/units.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/device_part.h"
#include "runtime/cuda/pinned_memory.h"
#include "runtime/cuda/transport.h"
#include "runtime/decoder/engine.h"

namespace sluice::cuda {

struct CudaOptions {
    // The same bits in every run: cuDNN's deterministic backward, which needs 2 * heads * queries * keys bytes of
    // workspace, and the library's first proposal for every product instead of the fastest.
    bool deterministic = false;
    Disturbances disturbances;
    std::optional<BytesPerSecond> copy_out_limit, copy_in_limit;  // copies are held up to be no faster
    PinningProgress pinning;                                      // told while host memory is pinned; empty: nobody
    DevicePartMaker device_of_rank;                               // what each local rank runs on; empty: all of GPU 0
    TransportMaker transport;  // how ranks talk; empty: schedules in which the local rank talks are refused
};

// The engine throws InputError for a schedule that cannot be run, EnvironmentError when there is no GPU, or when its
// memory or the host's is short, before any is taken.
EngineMaker cuda_engine(const CudaOptions& options = {});

// What a rank takes of the GPU's memory beside its arena and what the context and the libraries hold by themselves:
// workspaces of products and reductions, the tokens of a step.
Bytes fixed_device_bytes(const Scenario&);

}  // namespace sluice::cuda
