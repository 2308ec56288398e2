// Times the products of decoder layers as the CUDA backend runs them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/units.h"
#include "runtime/cuda/gemm.h"
#include "runtime/cuda/sustained_call.h"
#include "runtime/cuda_profile/gpu_timer.h"
#include "runtime/profile/gpu_figures.h"

namespace sluice::cuda {

// One product of a schedule with its gradients. The backend runs query and key-value as two products in forward, which a
// schedule counts as one.
struct LayerProducts {
    Gemm shape{};  // forward, as schedules have it
    std::vector<GemmShape> forward, data, weight;
};

// Of `in` to each of `outs` features, Y = X W^T; the gradient of W is added to fp32 sums.
LayerProducts layer_products(std::int64_t tokens, std::int64_t in, const std::vector<std::int64_t>& outs);
// Of a chunk of the loss: fp32 logits, whose bf16 gradient lies in their place.
LayerProducts logits_products(std::int64_t tokens, std::int64_t hidden, std::int64_t vocabulary);

// What the table of a calibration is made from: layers of models of 1, 3 and 7 billion parameters at 1 Ki to 32 Ki
// tokens, their logits, and smaller and larger ones around. `quick`: a few.
std::vector<LayerProducts> profiled_products(bool quick);
// Layers of another model, at other lengths.
std::vector<LayerProducts> other_products(bool quick);

// Operands are random (constant ones cost less power and run faster), and lie where those of the product before did:
// large ones find nothing in a cache, small ones do, as they do in a run.
class ProductBench {
public:
    // Memory for the largest of `all`. Throws EnvironmentError where it is not to be had.
    ProductBench(Gemms& gemms, GpuTimer& timer, Seconds at_least, const std::vector<LayerProducts>& all);

    ProductFigure time(const LayerProducts& products);

    // Chooses an algorithm, by measuring.
    void prepare(const GemmShape& shape);
    // Puts one product on the timer's stream. Requires: prepared, not larger than the largest.
    void run(const GemmShape& shape);

private:
    Measurement time(const GemmShape& shape);
    Measurement time(const std::vector<GemmShape>& shapes);

    Gemms& gemms_;
    GpuTimer& timer_;
    const Seconds at_least_;
    MeasurementMemory operands_, result_, scratch_;
    std::map<GemmShape, Measurement> measured_;
};

}  // namespace sluice::cuda
