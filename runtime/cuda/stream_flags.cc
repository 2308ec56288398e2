#include "runtime/cuda/stream_flags.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "runtime/cuda/check.h"
#include "runtime/cuda/driver_function.h"

namespace sluice::cuda {
namespace {

struct MemoryOps {
    decltype(cuStreamWriteValue32)* write =
        reinterpret_cast<decltype(cuStreamWriteValue32)*>(find_driver_function("cuStreamWriteValue32", 12000));
    decltype(cuStreamWaitValue32)* wait =
        reinterpret_cast<decltype(cuStreamWaitValue32)*>(find_driver_function("cuStreamWaitValue32", 12000));
};

const MemoryOps& memory_ops() {
    static const MemoryOps ops;
    return ops;
}

// Where GPUs find pinned host memory.
CUdeviceptr address(const Flag* flag) {
    void* found = nullptr;
    check(cudaHostGetDevicePointer(&found, const_cast<Flag*>(flag), 0), "a flag in host memory");
    return reinterpret_cast<CUdeviceptr>(found);
}

bool pin(std::span<std::byte> pages) {
    if (cudaHostRegister(pages.data(), pages.size(), cudaHostRegisterPortable | cudaHostRegisterMapped) == cudaSuccess)
        return true;
    cudaGetLastError();  // not to be found by whoever asks next
    return false;
}

void unpin(std::span<std::byte> pages) noexcept { cudaHostUnregister(pages.data()); }

// The runtime's codes are the driver's.
void set(Stream stream, Flag* flag, std::uint32_t value) {
    check(static_cast<int>(memory_ops().write(stream, address(flag), value, CU_STREAM_WRITE_VALUE_DEFAULT)),
          "set a flag");
}

void wait(Stream stream, const Flag* flag, std::uint32_t value) {
    check(static_cast<int>(memory_ops().wait(stream, address(flag), value, CU_STREAM_WAIT_VALUE_GEQ)),
          "wait for a flag");
}

void drain() { check(cudaDeviceSynchronize(), "work of a GPU"); }

}  // namespace

const StreamFlags* stream_flags() {
    static const StreamFlags functions{pin, unpin, set, wait, drain};
    return memory_ops().write != nullptr && memory_ops().wait != nullptr ? &functions : nullptr;
}

}  // namespace sluice::cuda
