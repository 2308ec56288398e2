// Packs buffers with known lives into one arena, offline: all lives are known before the first offset is chosen.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace sluice {

struct PackItem {
    std::uint32_t first = 0, last = 0;  // life, both ends included; items that share a moment may not share bytes
    Bytes size{};                       // > 0, a multiple of the alignment wanted of offsets
    friend auto operator<=>(const PackItem&, const PackItem&) = default;
};

struct Packing {
    std::vector<Bytes> offsets;  // by item
    Bytes height{};              // end of the highest item
};

// Lowest-fit in several orders (longest life first, largest first, largest area first, order of birth), the lowest
// arena wins; orders after one that reaches the live peak, which no packing can beat, are not tried. Deterministic.
// The search for a gap skips whole runs of placed items, which makes it near linear where
// long lives pile up without gaps, as in a pipeline; the worst case is quadratic.
Packing pack_arena(const std::vector<PackItem>& items);

}  // namespace sluice
