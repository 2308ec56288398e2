// Which op of a rank is known to have ended before another op of the same rank starts, by lane order and `after` alone
// (rule 5 asks no more; matches with other ranks are ignored, which is conservative).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "schedule/lane_index.h"
#include "schedule/schedule.h"

namespace sluice {

// One vector clock per op over the lanes of its rank: entry l counts the ops at the head of lane l that have ended
// before the op starts. Memory: ops x lanes of the rank x 4 bytes.
//
//   const auto before = HappensBefore::of(schedule);
//   if (before && (*before)(offload, reload)) ...
class HappensBefore {
public:
    // Empty when lane order and `after` of some rank form a cycle. Requires: ids and `after` in range, same-rank
    // `after`.
    static std::optional<HappensBefore> of(const Schedule& schedule);

    // No op is entered yet: to build the clocks along the way, in an order that respects lanes and `after`.
    HappensBefore(const Schedule& schedule, LaneIndex lanes);

    // Computes the clock of `op` from its lane and its `after`. Requires: everything it waits for has been entered.
    void enter(const Op& op);

    // Adds that `op` waits for `earlier`. Requires: both are entered, and no op that waits for `op` is.
    void wait_for(OpId op, OpId earlier);

    // Has `a` ended before `b` starts, in every execution? Requires: a and b are entered ops of one rank.
    // False for a == b.
    bool operator()(OpId a, OpId b) const { return ended(b)[lanes_.lane(a)] >= lanes_.place(a); }

    // By lane of the rank: how many of its first ops have ended before `op` starts.
    std::span<const std::uint32_t> ended(OpId op) const;

    const LaneIndex& lanes() const { return lanes_; }

private:
    LaneIndex lanes_;
    std::vector<std::uint64_t> first_clock_;  // by op, one more at the end: index into clocks_
    std::vector<std::uint32_t> clocks_;
};

}  // namespace sluice
