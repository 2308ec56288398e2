#include "runtime/data/shuffled_index.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace sluice {

std::int64_t shuffled_index(std::int64_t index, std::int64_t count, std::uint64_t key) {
    SLUICE_CHECK(index >= 0 && index < count, "only items have a place");
    constexpr std::uint64_t kRounds = 6;
    const auto last = static_cast<std::uint64_t>(count - 1);
    const unsigned half = std::max(1U, (static_cast<unsigned>(std::bit_width(last)) + 1) / 2);
    const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
    auto value = static_cast<std::uint64_t>(index);
    do {
        std::uint64_t left = value >> half, right = value & mask;
        for (std::uint64_t round = 0; round < kRounds; ++round) {
            const std::uint64_t mixed = left ^ (mix_bits(mix_bits(key + round) ^ right) & mask);
            left = right;
            right = mixed;
        }
        value = left << half | right;
    } while (value > last);
    return static_cast<std::int64_t>(value);
}

}  // namespace sluice
