// How fast a GPU computes while its copy engines and collectives run, and, where it is a part of a device, while other
// parts do or do not compute: the table of speeds that a Platform is made with, and which of them holds when.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/calibration.h"
#include "schedule/schedule.h"

namespace sluice {

// What slows a GPU's compute, as bits of a set.
enum Slowing : std::size_t { kByCopyOut = 1, kByCopyIn = 2, kByCollective = 4 };
std::size_t slowing(LaneKind kind);  // 0: nothing

class ComputeSpeeds {
public:
    // `parts` of a device, 1 for a whole one.
    ComputeSpeeds(const Interference& factors, std::int64_t parts);

    // Relative to the calibration's rates. The first is 1; the only one where nothing interferes.
    const std::vector<double>& all() const { return all_; }
    bool vary() const { return all_.size() > 1; }
    bool vary_with_parts() const { return idle_parts_ > 0; }

    // Position in all() for an op of whose time `memory_bound` (0 to 1, kept to a 32nd) are memory-bound kernels, while
    // `slowed_by` runs on its GPU and `idle` other parts of the device do not compute.
    std::size_t at(std::size_t slowed_by, double memory_bound, std::size_t idle) const;

private:
    std::size_t idle_parts_ = 0;  // at most; 0 where it makes no difference
    std::vector<double> all_;
};

}  // namespace sluice
