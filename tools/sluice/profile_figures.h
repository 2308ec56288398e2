// Words for the figures that profiles of every device have.
#pragma once

#include <string>
#include <utility>

#include "runtime/profile/measurement.h"
#include "scenarios/calibration.h"
#include "tools/sluice/profile_check.h"

namespace sluice {

std::string spread_text(const SampleSpread&);
std::string error_text(const PredictionError&);

// The slowest and the fastest of a table.
std::pair<FlopsPerSecond, FlopsPerSecond> gemm_range(const Calibration&);
std::pair<FlopsPerSecond, FlopsPerSecond> attention_range(const Calibration&);
std::pair<BytesPerSecond, BytesPerSecond> pointwise_range(const Calibration&);

}  // namespace sluice
