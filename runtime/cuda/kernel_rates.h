// What the kernels of our own reach on this device, of the bytes that they must move: for benchmarks.
#pragma once

#include <functional>
#include <string>

#include "base/units.h"
#include "runtime/cuda/sustained_call.h"

namespace sluice::cuda {

struct KernelRate {
    std::string kernel, shape;
    Bytes traffic{};  // read and written by one call if nothing is read twice; weights and statistics count
    SustainedCall call;
};

// Every kernel of norm.h, rotary.h, activation.h, elementwise.h, token_embedding.h, vocabulary_loss.h and optimizer.h,
// on the shapes of two models, each for about `each`. Every call works on other memory than the last few gigabytes of
// calls, so that nothing is found in a cache. Needs 14 GiB of device memory. Only kernels whose name contains `only`.
void kernel_rates(Seconds each, std::string_view only, const std::function<void(const KernelRate&)>& report);

}  // namespace sluice::cuda
