// Times the kernels of the CPU backend, as schedules name them: one call alone on one core.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "runtime/profile/measurement.h"
#include "scenarios/calibration.h"
#include "schedule/schedule.h"

namespace sluice {

// Keeps its memory from one kernel to the next: figures are those of a run that has been going on for a while. The
// working set of a small kernel is in the caches, as it is where the kernel before has just written it.
class KernelBench {
public:
    explicit KernelBench(const MeasureEffort& effort) : effort_(effort) {}

    // The mean of the three products of a linear layer with these extents: X W^T, dY W, and dY^T X added to. Schedules
    // do not tell them apart.
    Measurement time(const Gemm& shape);

    Measurement time(const Attention& shape);

    struct PointwiseTime {
        Measurement time;  // of all calls together
        Bytes traffic{};   // of all calls together, as schedules count it in fp32 (models/layer_kernels.cc)
        int calls = 0;     // forward and backward, where there are both
    };
    // About as much traffic in a call as asked for. kGelu includes the biases of a layer that has them, forward and
    // backward: 9/4 of the MLP's width (first and second layer, QKV and projection, with ffn = 4 hidden).
    // InternalError for kernels that the CPU backend has no single function for (kNorm, kActivation, kAccumulate).
    PointwiseTime time(PointwiseKernel kernel, Bytes traffic);

private:
    // `count` floats of reasonable numbers, the same for every call with this slot.
    float* floats(std::size_t slot, std::int64_t count);

    PointwiseTime time_norm(bool layer_norm, Bytes traffic);
    PointwiseTime time_rope(Bytes traffic);
    PointwiseTime time_swiglu(Bytes traffic);
    PointwiseTime time_gelu(Bytes traffic);
    PointwiseTime time_residual(Bytes traffic);
    PointwiseTime time_embedding(Bytes traffic);
    PointwiseTime time_cross_entropy(Bytes traffic);
    PointwiseTime time_adamw(Bytes traffic);
    PointwiseTime time_gradient_norm(Bytes traffic);

    MeasureEffort effort_;
    std::vector<std::vector<float>> slots_;
};

}  // namespace sluice
