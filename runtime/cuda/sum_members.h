// Sums of what several ranks have, for reductions between them.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/cuda/transport.h"

namespace sluice::cuda {

inline constexpr std::size_t kMostSummed = 64;

// Every `into` becomes the sum of all `from`, element by element: added in the order of `from`, bf16 in fp32 and
// rounded once at the end. An `into` may be one of `from`. Memory that the stream's GPU reaches; at most kMostSummed of
// each.
void sum_members(Stream, ElementType, std::span<const std::byte* const> from, std::span<std::byte* const> into,
                 std::size_t count);

}  // namespace sluice::cuda
