// What a collective sends as a ring: nccl-tests conventions (PERFORMANCE.md of nccl-tests).
#pragma once

#include <cstddef>

#include "schedule/schedule.h"

namespace sluice {

// What each member of a ring of n sends to its successor during one call, as a fraction of Collective::bytes:
// all-gather, reduce-scatter, all-to-all (n-1)/n; all-reduce 2 (n-1)/n; broadcast, reduce 1 (pipelined chain; the
// last member of the chain sends nothing). 0 for n == 1.
double ring_fraction(CollectiveKind kind, std::size_t members);

// Hops that follow one another in one call: n-1, 2(n-1) for all-reduce.
std::size_t ring_steps(CollectiveKind kind, std::size_t members);

}  // namespace sluice
