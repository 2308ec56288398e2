// A GPU's memory beside the arena of a rank: what the cluster's numbers say that it takes, and what they leave.
#pragma once

#include "base/units.h"
#include "scenarios/scenario.h"

namespace sluice {

// Of the GPU, to map what a rank pins in host memory. Rounded up to a byte.
Bytes page_table_bytes(const Gpu&, Bytes pinned);

// What a rank that pins so many bytes has on its GPU beside its arena: context and libraries, what its engine keeps,
// what grows with the tokens of the step (every rank has those of the whole batch), page tables. The margin is not in
// it: nothing uses that.
Bytes beyond_arena_bytes(const Scenario&, Bytes pinned);

// What is left for the arena of a rank that pins so many bytes; 0 where nothing is.
Bytes usable_device_memory(const Scenario&, Bytes pinned);

}  // namespace sluice
