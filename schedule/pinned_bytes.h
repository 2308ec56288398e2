// How much host memory the ranks of a placed schedule pin, by how they allocate it.
#pragma once

#include <vector>

#include "base/units.h"
#include "schedule/schedule.h"

namespace sluice {

// By rank: one arena, the end of its highest host buffer. Buffers without offset take nothing.
std::vector<Bytes> arena_bytes(const Schedule& schedule);

// By rank: what a caching allocator has taken at the end of the step that allocates every host buffer by itself, as a
// block of the next power of two, and keeps freed blocks for later buffers of that size. In issue order, as placement
// sees lives. Offsets do not matter. Requires: ids and ranks in range.
std::vector<Bytes> power_of_two_bytes(const Schedule& schedule);

}  // namespace sluice
