#include "runtime/cuda/device_part.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"

namespace sluice::cuda {

void WholeDevice::make_current() const { check(cudaSetDevice(device_), "choose a GPU"); }

Stream WholeDevice::new_stream() const {
    Stream stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    return stream;
}

}  // namespace sluice::cuda
