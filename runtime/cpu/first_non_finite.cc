#include "runtime/cpu/first_non_finite.h"

#include <algorithm>
#include <bit>

namespace sluice {
namespace {

// By bits, so that no compiler option can assume it away.
bool is_bad(float value) {
    constexpr std::uint32_t kExponent = 0x7f800000U;
    return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
}

}  // namespace

std::optional<std::int64_t> first_non_finite(std::span<const float> values) {
    constexpr std::int64_t kBlock = 1024;  // counted without a branch, searched only where something is bad
    const auto count = static_cast<std::int64_t>(values.size());
    const float* v = values.data();
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
        const std::int64_t end = std::min(count, begin + kBlock);
        std::uint32_t bad = 0;
        for (std::int64_t i = begin; i < end; ++i) bad += is_bad(v[i]) ? 1U : 0U;
        if (bad == 0) continue;
        for (std::int64_t i = begin; i < end; ++i)
            if (is_bad(v[i])) return i;
    }
    return std::nullopt;
}

}  // namespace sluice
