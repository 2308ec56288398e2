// What `sluice profile --device cuda` says: on stdout, and in the files that it writes.
#pragma once

#include <string>
#include <vector>

#include "runtime/profile/gpu_figures.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"
#include "scenarios/file_origin.h"
#include "tools/sluice/gpu_profile_check.h"

namespace sluice {

struct GpuProfileReport {
    GpuFigures figures;
    Calibration calibration;
    Cluster cluster;
    GpuProfileCheck check;
    bool quick = false;
    std::string date;                            // "2026-11-29"
    std::string version;                         // of sluice
    std::string calibration_file, cluster_file;  // "": not written
    double wall_seconds = 0;
};

// Makes the tables of the figures, and checks them.
GpuProfileReport gpu_profile_report(GpuFigures, const std::string& calibration_name, const std::string& cluster_name);

std::vector<std::string> gpu_profile_notes(const GpuProfileReport&);
std::string gpu_profile_text(const GpuProfileReport&);
std::string gpu_profile_json(const GpuProfileReport&);  // every figure, too

// Provenance of the two files: GPU, driver, libraries, date, spread.
FileOrigin gpu_calibration_origin(const GpuProfileReport&);
FileOrigin gpu_cluster_origin(const GpuProfileReport&);

}  // namespace sluice
