// What the libraries reach on this device when they run one shape again and again: for benchmarks and floors.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/sustained_call.h"

namespace sluice::cuda {

// Operands are random, in device memory of its own: constant ones cost less power and run faster than a model's.
// Throws EnvironmentError when they do not fit.
struct ProductRate {
    SustainedCall call;
    GemmChoice choice;
};
ProductRate sustained_product(const GemmShape&, Seconds at_least);

struct AttentionRate {
    SustainedCall forward, backward;
    Bytes forward_workspace{}, backward_workspace{};
};
// K and V are one buffer of [token][K or V][kv_head][head_dim].
AttentionRate sustained_attention(const AttentionShape&, Seconds at_least);

}  // namespace sluice::cuda
