// A collective as the flows it sends through the links of the machine.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "schedule/schedule.h"

namespace sluice {

struct MemberFlow {
    Rank from{}, to{};
    Bytes bytes{};
};

// Appends the flows of all calls of one collective of `members` (in ring order). All run at the same time: a ring or a
// chain is pipelined in small pieces, so every hop is busy for the whole call, and its fill time is latency, paid
// before (models/collective_cost.h).
//   all-gather, reduce-scatter, all-reduce   a ring: each member sends ring_fraction x bytes to its successor
//   broadcast                                a chain from the root in ring order; the last member sends nothing
//   reduce                                   the same chain towards the root
//   all-to-all                               each member sends bytes / n straight to each other member
// Nothing for one member.
void expand(const Collective& collective, const std::vector<Rank>& members, std::vector<MemberFlow>& flows);

}  // namespace sluice
