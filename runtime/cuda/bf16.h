// bfloat16 values in memory, without any header of CUDA: the upper half of a float.
#pragma once

#include <bit>
#include <cstdint>

namespace sluice::cuda {

struct Bf16 {
    std::uint16_t bits = 0;
};

constexpr float to_float(Bf16 value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U); }

// To the nearest, ties to even; NaN stays NaN.
constexpr Bf16 to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
    return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U)};
}

}  // namespace sluice::cuda
