#include "runtime/cuda/gpu_description.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/gemm.h"

namespace sluice::cuda {

GpuDescription describe_gpu() {
    int device = 0, driver = 0, runtime = 0;
    check(cudaGetDevice(&device), "no GPU");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, device), "the GPU's properties");
    check(cudaDriverGetVersion(&driver), "the driver's version");
    check(cudaRuntimeGetVersion(&runtime), "the runtime's version");
    const auto version = [](int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); };
    return {properties.name,
            version(driver),
            version(runtime),
            cublas_description(),
            cudnn_description(),
            Bytes{static_cast<std::int64_t>(properties.totalGlobalMem)},
            properties.multiProcessorCount};
}

}  // namespace sluice::cuda
