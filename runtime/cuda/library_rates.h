// What the libraries reach on this device when they run one shape again and again: for benchmarks and floors.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "runtime/cpu/causal_attention.h"
#include "runtime/cuda/gemm.h"

namespace sluice::cuda {

struct SustainedCall {
    Seconds each{};          // mean of one call, device time
    std::int64_t calls = 0;  // that were timed, one after another, after some that were not
};

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

// Of the current device: its name, and the version of CUDA that the driver has.
std::string current_device_description();

}  // namespace sluice::cuda
