// What a fit finds besides rates of kernels. Private to validation/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "scenarios/calibration.h"
#include "validation/fit_calibration.h"
#include "validation/kernel_samples.h"

namespace sluice {

// Time that no kernel of an op covers, by its calls. Stays where kernels touch: then gaps are in their times.
FittedPart fit_kernel_gap(Calibration&, const KernelSamples&, std::size_t least);

// From ops half of which or more ran beside one engine alone, against the same kernels alone.
FittedPart fit_interference(Calibration&, const KernelSamples&, std::span<const MeasuredRun>, std::size_t least);

// Bus bandwidths by message size, of groups inside a node; from when the last member was ready.
FittedPart fit_collectives(Calibration&, std::span<const MeasuredRun>, std::size_t least);

// Median rates of copies and transfers, in words for the cluster's file.
std::vector<std::string> link_rates(std::span<const MeasuredRun>, std::size_t least);

}  // namespace sluice
