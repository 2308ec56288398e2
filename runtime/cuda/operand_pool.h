// Device memory for what kernels work on while they are measured.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "runtime/cuda/device_memory.h"
#include "runtime/cuda/device_views.h"
#include "runtime/cuda/sustained_call.h"

namespace sluice::cuda {

// Operands of one call after the other, round and round in a pool so large that nothing is found in a cache.
class OperandPool {
public:
    explicit OperandPool(Bytes size) : memory_(size) {}

    // What the last kernel left is no operand for the next: infinities take other paths.
    void refill() const { memory_.fill_at_random(); }

    template <class Element>
    Element* take(std::int64_t count) {
        const Bytes bytes = round_up(Bytes{count * static_cast<std::int64_t>(sizeof(Element))}, 256_B);
        SLUICE_CHECK(bytes <= memory_.size(), "the pool of a measurement holds an operand");
        if (next_ + bytes > memory_.size()) next_ = Bytes{0};
        auto* const data = reinterpret_cast<Element*>(memory_.data() + next_.value);
        next_ += bytes;
        return data;
    }
    Bf16Matrix bf16(std::int64_t rows, std::int64_t columns) { return {take<Bf16>(rows * columns), rows, columns}; }
    Fp32Matrix fp32(std::int64_t rows, std::int64_t columns) { return {take<float>(rows * columns), rows, columns}; }

private:
    MeasurementMemory memory_;
    Bytes next_{};
};

// Values of the host on the device.
template <class Element>
class Uploaded {
public:
    explicit Uploaded(const std::vector<Element>& values)
        : memory_(Bytes{static_cast<std::int64_t>(values.size() * sizeof(Element))}) {
        upload(std::as_bytes(std::span(values)), memory_.data());
    }
    Element* data() const { return reinterpret_cast<Element*>(memory_.data()); }

private:
    MeasurementMemory memory_;
};

}  // namespace sluice::cuda
