// Operations of a kernel: facts of its shape, whatever runs it.
#pragma once

#include "base/units.h"
#include "schedule/schedule.h"

namespace sluice {

// FLOPs of one call, a multiply-add counting 2; pointwise kernels count 0.
// Attention counts unmasked pairs only: with prefix p = keys - queries, a causal call has q p + q (q + 1) / 2 pairs;
// forward 4 d FLOPs per pair and head, backward 10 d (five products; FlashAttention-2 section 4 counts 2.5x too).
Flops flops(const Gemm&);
Flops flops(const Attention&);
Flops flops(const KernelShape&);

}  // namespace sluice
