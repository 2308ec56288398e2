// Made-up tensors on the device: runtime/stand_in.h.
#pragma once

#include <cstdint>

#include "runtime/cuda/device_views.h"

namespace sluice::cuda {

// values[i] = scale * plausible_value(seed, i), rounded to bf16.
void fill_plausible(Stream, Bf16* values, std::int64_t count, float scale, std::uint64_t seed);

}  // namespace sluice::cuda
