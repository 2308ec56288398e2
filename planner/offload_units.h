// The second lowering pass: splits units into what stays and what is moved, and lists the copies.
#pragma once

#include <vector>

#include "base/units.h"
#include "planner/folded_step.h"

namespace sluice {

// The buffers that a unit became. kNoBuffer where it has no such part.
struct UnitParts {
    BufferId kept = kNoBuffer;      // device, from forward to backward
    BufferId moved = kNoBuffer;     // device, from forward to the end of its copy out
    BufferId host = kNoBuffer;      // pinned, from its copy out to its copy in
    BufferId reloaded = kNoBuffer;  // device, from its copy in to backward
};

struct OffloadedStep {
    FoldedStep step;               // units[u].buffer is the kept part
    std::vector<UnitParts> parts;  // by unit
};

// Moves `moved[u]` bytes of unit u, 0 <= moved[u] <= its size. Where they are the sum of some of its tensors, the parts
// say which they hold, else nothing. A copy out starts when the last forward op that touches the unit has ended, a copy
// in when its copy out has; the first backward op of each lane that reads the unit waits for it.
OffloadedStep offload_units(const FoldedStep&, const std::vector<Bytes>& moved);

}  // namespace sluice
