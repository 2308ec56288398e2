// How long one kernel takes alone on its GPU, from its shape and a calibration.
#pragma once

#include "base/units.h"
#include "scenarios/calibration.h"
#include "schedule/flops.h"
#include "schedule/op_class.h"
#include "schedule/schedule.h"

namespace sluice {

// One kernel, `count` calls back to back, each followed by the calibration's launch gap.
// Attention rates are looked up by (queries, keys) and where the calibration has it head_dim, GEMM rates by (m n k)^(1/3)
// or, where the calibration has them, by (m, n, k); pointwise rates by traffic in the kernel's own table, else one rate
// for all. Interpolated in the logarithm. A kernel that the calibration calls fused takes no time and has no gap.
Seconds kernel_time(const Kernel&, const Calibration&);
Seconds compute_time(const Compute&, const Calibration&);
// Of that, the kernels that memory bounds.
Seconds memory_bound_time(const Compute&, const Calibration&);
// The same work on a GPU at its full clock (Calibration::power_limit).
Seconds full_clock_time(const Compute&, const Calibration&);

}  // namespace sluice
