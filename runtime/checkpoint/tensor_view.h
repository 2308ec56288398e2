// A tensor in somebody else's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/checkpoint/tensor_type.h"

namespace sluice {

struct TensorView {
    std::string name;
    TensorType type = TensorType::kF32;
    std::vector<std::int64_t> shape;   // row-major; empty for a scalar
    std::span<const std::byte> bytes;  // maybe not aligned for the type: copy, do not cast
};

std::string shape_text(std::span<const std::int64_t> shape);  // "[3, 4]"

// Elements first .. first + values.size() - 1 in row-major order. Types F32 and BF16; throws InputError naming tensor
// and type for others. Requires: they lie inside the tensor.
void read_floats(const TensorView& tensor, std::int64_t first, std::span<float> values);

}  // namespace sluice
