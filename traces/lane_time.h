// Where the time of every rank's compute lane went. The parts sum to the step, exactly up to rounding.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "traces/trace.h"

namespace sluice {

struct LaneTime {
    Rank rank{};
    Seconds work{};          // compute events (recomputation included: see `recompute`)
    Seconds warm_up{};       // bubble before the rank's first compute event
    Seconds bubble{};        // idle because a pipeline neighbour was not ready, or for no recorded reason
    Seconds exposed_d2h{};   // idle while an offload it waits for runs
    Seconds exposed_h2d{};   // idle while a reload it waits for runs
    Seconds exposed_comm{};  // idle while a transfer or collective it waits for runs
    Seconds memory_wait{};   // idle because bytes to write to were still in use, no copy running
    Seconds drain{};         // bubble after the rank's last compute event, until the step ends

    Seconds recompute{};  // part of `work`: events of phase recompute. Not one of the parts that sum.

    Seconds total() const {
        return work + warm_up + bubble + exposed_d2h + exposed_h2d + exposed_comm + memory_wait + drain;
    }
};

// One entry per rank that has a compute lane, by rank. An idle gap is explained by following blockers backwards from
// the op that ended it: each moment of the gap goes to what the chain was doing then. The end of the step counts as an
// op of every rank that waited for the event that ended last. docs/traces.md has the rules and a worked example. Never
// fails: what a chain does not explain (no blocker, a blocker without event, a cycle) is bubble.
std::vector<LaneTime> lane_times(const Trace& trace);

// Sums over ranks divided by (ranks x step); the paper's two readings of "bubble".
struct BubbleShare {
    double of_step = 0;  // (warm-up + bubble + drain) / step: (p-1)/(N+p-1) for an ideal pipeline
    double of_work = 0;  // (warm-up + bubble + drain) / work: (p-1)/N for an ideal pipeline
};
BubbleShare bubble_share(const Trace& trace, const std::vector<LaneTime>& times);

}  // namespace sluice
