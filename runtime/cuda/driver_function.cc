#include "runtime/cuda/driver_function.h"

#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"

namespace sluice::cuda {

void* find_driver_function(const char* name, unsigned version) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result), name);
    return result == cudaDriverEntryPointSuccess ? found : nullptr;
}

}  // namespace sluice::cuda
