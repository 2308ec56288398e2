// What a step needs whatever the placement decides: refuses most of what cannot fit in a fraction of a placement's
// time.
#pragma once

#include <vector>

#include "planner/memory_need.h"
#include "planner/decide_placement.h"
#include "planner/plan.h"

namespace sluice {

// Stages, then nodes, as memory_needs() has them; empty unless placement is adaptive or three-way.
//   GPU   what lives at once when everything that may be offloaded is; more offloading never needs more. Three-way: the
//         least that any fates leave (LiveModel::floor())
//   host  every rank offloads at least by how much the step with nothing offloaded exceeds its GPU, since moving a byte
//         frees no more than one; on the host all of it lives at once, when forward ends. Three-way: less what
//         recomputing everything frees
// `by_kind` is zero. Requires: fill_windows() has filled `activation`.
std::vector<MemoryNeed> memory_floors(const PlacementContext&, const std::vector<StagePlan>&);

}  // namespace sluice
