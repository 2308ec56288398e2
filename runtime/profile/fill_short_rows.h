// A full grid of attention rates from one that only has what a causal call can have.
#pragma once

#include <span>

#include "scenarios/calibration.h"

namespace sluice {

// Of points of the same queries, by keys. As the reader of files does: keys below queries, which no causal call has and
// whose rates are 0, get the rates at the fewest keys.
void fill_short_rows(std::span<AttentionPoint> row);

}  // namespace sluice
