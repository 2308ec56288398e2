// The `after` edges that sharing bytes needs (rule 5).
#pragma once

#include "schedule/schedule.h"

namespace sluice {

// Makes every op that starts to use bytes wait for the ops that last used them on behalf of another buffer, unless lane
// order and `after` say so already. Adds no edge that follows from others; edges lead from ops listed earlier to ops
// listed later. Lists of `after` that change are sorted and without repetition.
// Requires: every used buffer has an offset; buffers that share bytes have disjoint lives in issue order; the listed
// order respects lane order and `after`.
void add_reuse_edges(Schedule& schedule);

}  // namespace sluice
