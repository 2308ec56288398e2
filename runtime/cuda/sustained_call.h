// One call again and again on the device, and memory for what it works on: for benchmarks and floors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/units.h"
#include "runtime/cuda/device_memory.h"

namespace sluice::cuda {

struct SustainedCall {
    Seconds each{};          // mean of one call, device time
    std::int64_t calls = 0;  // that were timed, one after another, after some that were not
};

// Puts calls on the default stream until they have taken about `at_least`. Waits.
SustainedCall sustained(Seconds at_least, const std::function<void()>& call);

// Device memory, uninitialised. Throws EnvironmentError where it does not fit.
class MeasurementMemory {
public:
    explicit MeasurementMemory(Bytes size) : memory_(size, "memory of a measurement") {}

    // Values of bf16, uniform in [-1, 1), one block of them again and again: constant ones cost less power and run
    // faster than a model's. Read as fp32 they are finite and below 1, too.
    void fill_at_random() const;
    void fill_with_zeros() const;

    std::byte* data() const { return memory_.bytes().data(); }
    Bytes size() const { return Bytes{static_cast<std::int64_t>(memory_.bytes().size())}; }

private:
    DeviceMemory memory_;
};

}  // namespace sluice::cuda
