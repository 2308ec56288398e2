#include "runtime/cuda/device_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "runtime/cuda/check.h"

namespace sluice::cuda {

DeviceMemory::DeviceMemory(Bytes bytes, const std::string& name) {
    if (bytes.value == 0) return;
    const Bytes free = device_memory_state().free;
    void* data = nullptr;
    if (bytes <= free) {
        const cudaError_t error = cudaMalloc(&data, static_cast<std::size_t>(bytes.value));
        if (error != cudaErrorMemoryAllocation) check(error, name);
        static_cast<void>(cudaGetLastError());  // the refusal is told below
    }
    if (data == nullptr)
        throw EnvironmentError(
            fmt::format("{}: GPU memory is short: got {} free, expected {}", name, format(free), format(bytes)));
    bytes_ = {static_cast<std::byte*>(data), static_cast<std::size_t>(bytes.value)};
}

DeviceMemory::~DeviceMemory() {
    if (bytes_.data() != nullptr) cudaFree(bytes_.data());
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
}

DeviceMemoryState device_memory_state() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "the GPU's memory cannot be asked for");
    return {Bytes{static_cast<std::int64_t>(free)}, Bytes{static_cast<std::int64_t>(total)}};
}

// cudaMemcpy from pageable memory returns when the bytes have been staged, not when they have arrived, and streams that
// do not wait for the default stream would begin too early.
void upload(std::span<const std::byte> host, std::byte* device) {
    check(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice), "copy to the GPU");
    check(cudaStreamSynchronize(cudaStreamLegacy), "copy to the GPU");
}

void download(const std::byte* device, std::span<std::byte> host) {
    check(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost), "copy from the GPU");
}

}  // namespace sluice::cuda
