// A calibration corrected by measured steps: the inverse of pricing. docs/validation.md has the rules.
#pragma once

#include <string>
#include <vector>

#include "scenarios/calibration.h"
#include "scenarios/file_origin.h"
#include "validation/kernel_samples.h"

namespace sluice {

struct FittedPoint {                   // of a table, or a single number
    std::string where, before, after;  // "queries 256, keys 1024", "2.00 TFLOP/s", "1.87 TFLOP/s"
};

// One class of work that the calibration prices.
struct FittedPart {
    std::string what{};  // "gemm", "attention_forward", "norm", "kernel_gap" ...
    std::size_t shapes = 0, samples = 0;
    // Of the time of these shapes in the runs: (calibration - measured) / measured, summed, and the mean of its
    // absolute value
    double error_before = 0, error_after = 0, spread_before = 0, spread_after = 0;
    std::vector<FittedPoint> points{};  // that changed
    std::string left{};                 // why it is as it was; empty where it was fitted
};

struct Fit {
    Calibration calibration;
    FileOrigin origin;  // for write_calibration()
    std::vector<FittedPart> parts;
    std::vector<std::string> suggestions;  // for the cluster's file
    std::vector<std::string> notes;        // outliers, what could not be used
};

struct FitOptions {
    std::size_t least_samples = 3;  // of a shape, else it is not used
    std::string name;               // of the new calibration
    std::string date;               // of the measurements, for the source; may be empty
    std::string runs;               // what was measured, for the source: "2 steps of tiny, cpu runtime 0.1.0 ..."
};

// Rates of kernels, the launch gap, interference, collectives inside a node. What has too few samples stays as it is.
// Requires: at least one run.
Fit fit_calibration(const Calibration& before, std::span<const MeasuredRun> runs, const FitOptions& options = {});

}  // namespace sluice
