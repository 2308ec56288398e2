// What a placed step takes from each pool of memory: the GPUs of a stage, the host memory of a node.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "scenarios/scenario.h"
#include "schedule/place_memory.h"
#include "schedule/schedule.h"

namespace sluice {

struct MemoryNeed {
    Space space = Space::kDevice;
    std::size_t place = 0;             // device: the stage; host: the node
    std::optional<std::int64_t> numa;  // host: the NUMA node of it, where its ranks have no other to use
    std::int64_t first_rank = 0,
                 last_rank = 0;  // that use it: each rank of a stage for itself, those of a node together
    Bytes needed{}, usable{};  // device: of the arena, beside which lies what models/device_memory.h says
    std::array<Bytes, kBufferKinds> by_kind{};  // what lives when most does, by BufferKind; zeros where it is not known

    Bytes excess() const { return needed > usable ? needed - usable : Bytes{}; }
    // "GPU memory of ranks 0-7 (stage 0)", "host memory of node 3, NUMA node 1 (ranks 28-31)"
    std::string where() const;
};

// Stages first, then nodes, in order. `device`: by stage. `pinned`: by stage, of each of its ranks (pinned_memory.h).
std::vector<MemoryNeed> memory_needs(const Scenario&, std::span<const ArenaUse> device, std::span<const Bytes> pinned);

// The pool that lacks most, as a share of what it has; nullptr: everything fits.
const MemoryNeed* worst_need(const std::vector<MemoryNeed>&);

// The kind of buffer that takes most of a pool, or, given the same pool of a step that fits, the one that grew most.
std::optional<BufferKind> largest_kind(const MemoryNeed&, const MemoryNeed* before = nullptr);

}  // namespace sluice
