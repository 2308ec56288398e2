// How well a calibration foretells kernels that it was not made from.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/profile/kernel_bench.h"
#include "scenarios/calibration.h"

namespace sluice {

// Of predicted / measured - 1, over the shapes of one class.
struct PredictionError {
    std::size_t shapes = 0;
    double median = 0;  // signed: which way the predictions lean
    double median_absolute = 0, p90_absolute = 0;
};

struct ProfileCheck {
    PredictionError gemm, attention, pointwise;
};

// Times shapes of decoder layers that lie between the points of the tables and compares.
ProfileCheck check_profile(KernelBench& bench, const Calibration& calibration, bool quick);

PredictionError error_of(std::vector<double> errors);  // of predicted / measured - 1

}  // namespace sluice
