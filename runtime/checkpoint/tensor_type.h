// Element types of tensors in safetensors files, with the format's own names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.h"

namespace sluice {

enum class TensorType : std::uint8_t {
    kBool,
    kU8,
    kI8,
    kF8E5m2,
    kF8E4m3,
    kI16,
    kU16,
    kF16,
    kBf16,
    kI32,
    kU32,
    kF32,
    kI64,
    kU64,
    kF64,
};

std::string_view name(TensorType type);  // BOOL U8 I8 F8_E5M2 F8_E4M3 I16 U16 F16 BF16 I32 U32 F32 I64 U64 F64
std::optional<TensorType> find_tensor_type(std::string_view name);
Bytes bytes_per_element(TensorType type);

}  // namespace sluice
