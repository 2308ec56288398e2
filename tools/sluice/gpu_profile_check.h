// How well a calibration of a GPU foretells the kernels that were measured.
#pragma once

#include <string>
#include <vector>

#include "runtime/profile/gpu_figures.h"
#include "scenarios/calibration.h"
#include "tools/sluice/profile_check.h"

namespace sluice {

struct GpuProfileCheck {
    ProfileCheck other;          // shapes that the tables are not made from
    PredictionError gemm_table;  // those that a row of the table is the median of
    // Where the memory model of the calibration has less than attention asked for: words for each. There is none, or
    // docs/memory.md is wrong about this library.
    std::vector<std::string> short_workspaces;
};

GpuProfileCheck check_gpu_profile(const GpuFigures&, const Calibration&);

}  // namespace sluice
