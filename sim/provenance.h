// What a simulated trace says about where its numbers come from, and what they leave out.
#pragma once

#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "traces/trace.h"

namespace sluice {

Provenance replay_provenance(std::size_t ranks, const Cluster& cluster, const Calibration& calibration);

}  // namespace sluice
