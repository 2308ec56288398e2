// Memory of the GPU, one block, owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/units.h"
#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

class DeviceMemory {
public:
    DeviceMemory() = default;
    // Exactly these bytes, aligned to 256. `name` is for messages: "device arena of rank 0". Throws EnvironmentError
    // when they are not to be had, with what is free.
    DeviceMemory(Bytes bytes, const std::string& name);
    ~DeviceMemory();
    DeviceMemory(DeviceMemory&& other) noexcept;
    DeviceMemory& operator=(DeviceMemory&& other) noexcept;

    std::span<std::byte> bytes() const { return bytes_; }
    template <class Element>
    Element* as() const {
        return reinterpret_cast<Element*>(bytes_.data());
    }

private:
    std::span<std::byte> bytes_;
};

// Of the current device.
struct DeviceMemoryState {
    Bytes free{}, total{};
};
DeviceMemoryState device_memory_state();

// Wait until the bytes are there. From and to ordinary memory of the host.
void upload(std::span<const std::byte> host, std::byte* device);
void download(const std::byte* device, std::span<std::byte> host);

}  // namespace sluice::cuda
