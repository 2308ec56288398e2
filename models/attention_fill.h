// How much of a GPU forward attention keeps busy.
#pragma once

#include "scenarios/calibration.h"
#include "schedule/schedule.h"

namespace sluice {

// Tiles / (rounds of tiles * multiprocessors) over the stretches of the call: 1 where every round is full, and where
// the calibration has no tiles. Measured: rank 112 of the 65B/640K/128 plan on an H200 (validation/h200.md), whose 4
// heads of 5632 queries fill 0.67 of it.
double attention_fill(const Attention&, const AttentionTiles&);

// Factor on the time that the table gives, forward alone: by how much fewer multiprocessors are busy than with the
// table's heads; what they do not take of the power is the others' (Calibration::power_limit), as after a pause.
double fill_factor(const Attention&, const Calibration&);
// The same at full clock, relative to the table's time at full clock.
double fill_factor_at_full_clock(const Attention&, const AttentionTiles&);

}  // namespace sluice
