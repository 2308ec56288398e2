// Kernels that disturb a run on purpose: memory filled with poison, streams held up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// NaN as bf16 in every half and as fp32.
inline constexpr std::uint32_t kDevicePoison = 0x7fa57fa5U;

// Requires: a multiple of 4 bytes, aligned to 4.
void fill_words(Stream, std::span<std::byte> bytes, std::uint32_t word);

// Writes the GPU's time to *slot when the stream comes here.
void mark_time(Stream, std::uint64_t* slot);
// Holds the stream until `nanoseconds` have passed since the time in *slot.
void hold_until(Stream, const std::uint64_t* slot, std::uint64_t nanoseconds);

}  // namespace sluice::cuda
