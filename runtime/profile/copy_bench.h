// Copies between memory, as the copy lanes of the CPU backend make them, alone and beside one another and compute.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "runtime/profile/measurement.h"

namespace sluice {

struct CopyRates {
    BytesPerSecond one{};        // one thread copies
    BytesPerSecond both{};       // two threads copy, the other way each: sum
    BytesPerSecond all_cores{};  // a thread on every core: sum
    double spread = 0;           // of one copy, (p90 - p10) / median
    Seconds start{};             // what a copy of 4 KiB takes, started on another thread: hand-over and return
};

// How much slower (a factor on the rate, at most 1) compute on one core is while others copy.
struct CopyInterference {
    double gemm = 1, pointwise = 1;  // while one thread copies
    double gemm_both = 1;            // while two threads copy: as many as both copy lanes of a rank
};

struct CopyEffort {
    Bytes block{1_MiB};     // of one copy
    Bytes region{128_MiB};  // from and to which they go, round and round: far larger than any cache
    Seconds each{0.5};      // for one figure
};

// Time of the thread (measurement.h) where every thread has a core of its own, so that other programs do not count;
// wall time where they are more than `cores`, since they then take turns as those of a run do.
CopyRates copy_rates(std::size_t cores, const CopyEffort& effort);
// `computing`: threads that already compute, this one included.
CopyInterference copy_interference(std::size_t cores, std::size_t computing, const CopyEffort& effort);

// From one thread's signal until another one, asleep, runs: the half of a round trip.
Measurement handover(Seconds for_all);

}  // namespace sluice
