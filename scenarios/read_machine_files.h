// A calibration or a cluster by itself, without a scenario that names it.
#pragma once

#include <filesystem>

#include "scenarios/calibration.h"
#include "scenarios/cluster.h"

namespace sluice {

// Throw InputError as read_scenario() does.
Calibration read_calibration_file(const std::filesystem::path& path);
Cluster read_cluster_file(const std::filesystem::path& path);

}  // namespace sluice
