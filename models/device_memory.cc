#include "models/device_memory.h"

#include <algorithm>

namespace sluice {

Bytes page_table_bytes(const Gpu& gpu, Bytes pinned) {
    const std::int64_t whole = pinned.value / (1_GiB).value, rest = pinned.value % (1_GiB).value;
    const std::int64_t of_rest = (rest * gpu.reserved_per_pinned_gib.value + (1_GiB).value - 1) / (1_GiB).value;
    return gpu.reserved_per_pinned_gib * whole + Bytes{of_rest};
}

Bytes beyond_arena_bytes(const Scenario& s, Bytes pinned) {
    const Gpu& gpu = s.cluster.gpu;
    return gpu.reserved + gpu.reserved_per_token * (s.sequence.value * s.batch) + page_table_bytes(gpu, pinned);
}

Bytes usable_device_memory(const Scenario& s, Bytes pinned) {
    const Gpu& gpu = s.cluster.gpu;
    return std::max(Bytes{}, gpu.memory - gpu.margin - beyond_arena_bytes(s, pinned));
}

}  // namespace sluice
