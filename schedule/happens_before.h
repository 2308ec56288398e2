// Which op of a rank is known to have ended before another op of the same rank starts, by lane order and `after` alone
// (rule 5 asks no more; matches with other ranks are ignored, which is conservative).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "schedule/schedule.h"

namespace sluice {

// One vector clock per op over the lanes of its rank.
class HappensBefore {
public:
    // Empty when lane order and `after` of some rank form a cycle. Requires: ids and `after` in range, same-rank `after`.
    static std::optional<HappensBefore> of(const Schedule& schedule);

    // Has `a` ended before `b` starts, in every execution? Requires: a and b are ops of one rank. False for a == b.
    bool operator()(OpId a, OpId b) const;

private:
    struct Position {
        std::uint32_t lane;   // index among the lanes of the rank
        std::uint32_t place;  // 1-based position in the lane
        std::uint64_t clock;  // first entry in clocks_
    };
    std::vector<Position> position_;     // by op
    std::vector<std::uint32_t> clocks_;  // per op, per lane of its rank: places known to have ended
};

}  // namespace sluice
