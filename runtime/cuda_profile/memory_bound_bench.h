// Times the kernels that memory bounds, as the CUDA backend runs them and schedules name them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/units.h"
#include "runtime/cuda/operand_pool.h"
#include "runtime/cuda_profile/gpu_timer.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

// A kernel and the traffic of a call of it.
struct MemoryBoundCall {
    PointwiseKernel kernel;
    Bytes traffic;
};
std::vector<MemoryBoundCall> profiled_memory_bound(bool quick);  // by kernel, then ascending traffic
std::vector<MemoryBoundCall> other_memory_bound(bool quick);     // between them

// Every call works on other memory than the last few gigabytes of calls: nothing is found in a cache.
class MemoryBoundBench {
public:
    MemoryBoundBench(GpuTimer& timer, Seconds at_least);

    // Forward and backward together where there are both. kNorm's forward is what the backend's sum of residuals and
    // norm in one kernel takes, without what a sum of residuals takes alone: schedules name both.
    PointwiseFigure time(const MemoryBoundCall& call);

private:
    Measurement timed(const std::function<void()>& call);
    PointwiseFigure norm(bool centred, Bytes traffic);
    PointwiseFigure rope(Bytes traffic);
    PointwiseFigure swiglu(Bytes traffic);
    PointwiseFigure gelu(Bytes traffic);
    PointwiseFigure residual(Bytes traffic);
    PointwiseFigure embedding(Bytes traffic);
    PointwiseFigure loss(Bytes traffic);
    PointwiseFigure adamw(Bytes traffic);
    PointwiseFigure gradient_norm(Bytes traffic);

    GpuTimer& timer_;
    const Seconds at_least_;
    OperandPool pool_;
    MeasurementMemory scratch_, sums_;  // of reductions; gradients of weights, statistics
    Stream stream() const { return timer_.stream(); }
    Scratch scratch() const { return {reinterpret_cast<float*>(scratch_.data()), kScratchFloats}; }
    float* sums() const { return reinterpret_cast<float*>(sums_.data()); }
};

}  // namespace sluice::cuda
