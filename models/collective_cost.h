// How long a collective takes, as a ring (schedule/ring.h).
#pragma once

#include "base/units.h"
#include "scenarios/calibration.h"
#include "schedule/ring.h"
#include "schedule/schedule.h"

namespace sluice {

// Latency of all calls: calls x (the calibration's collective_call + steps x its collective_step). No calls of one
// member cost anything.
Seconds collective_latency(const Collective&, std::size_t members, const Calibration&);

// What one link of a ring carries at this message size, alone; `across_nodes` selects the table, whose link is one
// adapter. A copy rate of 0 in the calibration (no table) means that the links alone decide: returns infinity.
BytesPerSecond bus_bandwidth(Bytes size, bool across_nodes, const Calibration&);

// Duration alone on an idle machine: latency + ring_fraction x bytes x calls / bus bandwidth. A ring across nodes goes
// over `rails` adapters of each node at once (models/rails.h), but no faster than its hops inside the nodes, which it
// has when rails > 1. All-to-all does not divide what a member sends: each member has one adapter. `rails` counts only
// across nodes.
Seconds collective_time(const Collective&, std::size_t members, bool across_nodes, const Calibration&,
                        std::size_t rails = 1);

}  // namespace sluice
