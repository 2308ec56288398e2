// A collective as the flows it sends through the links of the machine.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "models/rails.h"
#include "schedule/schedule.h"

namespace sluice {

struct MemberFlow {
    Rank from{}, to{};
    Bytes bytes{};
    std::uint32_t sharers = 1;  // ranks that send such flows through the adapter of `from`, each with a cap of its own
};

// Appends the flows of all calls of one collective of `members` (in ring order). All run at the same time: a ring or a
// chain is pipelined in small pieces, so every hop is busy for the whole call, and its fill time is latency, paid
// before (models/collective_cost.h).
//   all-gather, reduce-scatter, all-reduce   a ring: each member sends ring_fraction x bytes to its successor
//   broadcast                                a chain from the root in ring order; the last member sends nothing
//   reduce                                   the same chain towards the root
//   all-to-all                               each member sends bytes / n straight to each other member
// A hop of a ring or chain between nodes is one flow per rail, each with 1/rails of the bytes, from the rank by which
// that rail leaves the one node to the rank by which it enters the other. Nothing for one member.
// Requires: `rails` are those of `members`.
void expand(const Collective& collective, const std::vector<Rank>& members, const Rails& rails,
            std::vector<MemberFlow>& flows);

}  // namespace sluice
