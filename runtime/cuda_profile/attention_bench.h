// Times attention as the CUDA backend calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/units.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/sustained_call.h"
#include "runtime/cuda_profile/gpu_timer.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

// Of 24 heads of 128 values, 8 of keys and values.
Attention profiled_attention_shape(std::int64_t queries, std::int64_t keys);
// In ascending order of queries, then keys.
std::vector<Attention> profiled_attention(bool quick);  // a full grid, keys >= queries
std::vector<Attention> other_attention(bool quick);     // between its points

// One set of operands for all shapes: random, with K and V in one buffer as the backend has them. Backward includes
// what the backend does in that call: dK and dV added into fp32 sums, dQ summed and turned back by RoPE.
class AttentionBench {
public:
    // Builds the plans of all shapes, some 0.2 s each: `built` is told how many. Throws EnvironmentError where memory
    // for the largest is not to be had.
    AttentionBench(AttentionPlans& plans, GpuTimer& timer, Seconds at_least, const std::vector<Attention>& all,
                   const std::function<void(std::size_t)>& built);

    AttentionFigure time(const Attention& shape);

    // Put one call on the timer's stream.
    void forward(const Attention& shape);
    void backward(const Attention& shape);

private:
    AttentionOperands operands(const Attention& shape) const;

    AttentionPlans& plans_;
    GpuTimer& timer_;
    const Seconds at_least_;
    std::vector<std::unique_ptr<MeasurementMemory>> memory_;
    Bf16 *query_ = nullptr, *kv_ = nullptr, *out_ = nullptr, *dout_ = nullptr, *dquery_ = nullptr;
    float *log_sum_exp_ = nullptr, *dkv_ = nullptr;
    std::byte* workspace_ = nullptr;
};

}  // namespace sluice::cuda
