#include "runtime/cuda/gpu_description.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "runtime/cuda/attention.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/gemm.h"

namespace sluice::cuda {

namespace {

int attribute(cudaDeviceAttr which, int device) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, device), "the GPU's properties");
    return value;
}

// Two transfers per clock. The clock is in kHz, the width in bits.
BytesPerSecond memory_peak(int device) {
    const double clock = 1e3 * attribute(cudaDevAttrMemoryClockRate, device);
    return BytesPerSecond{2 * clock * attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8};
}

}  // namespace

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
            properties.multiProcessorCount,
            Bytes{properties.l2CacheSize},
            memory_peak(device)};
}

}  // namespace sluice::cuda
