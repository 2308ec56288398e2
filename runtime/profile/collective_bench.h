// Collectives between rank threads of one process: two threads that copy and add each other's memory.
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "scenarios/calibration.h"

namespace sluice {

struct CollectiveRates {
    Seconds step{};                      // a call without data: two threads meet and part
    std::vector<BandwidthPoint> points;  // the step taken off; mean time of all-gather and reduce-scatter
};

// For the whole tensors of these sizes, ascending.
CollectiveRates collective_rates(std::span<const Bytes> sizes, Seconds for_each);

}  // namespace sluice
