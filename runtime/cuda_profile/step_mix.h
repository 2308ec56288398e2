// Work in the proportions of a training step, to keep a GPU as busy and as warm as one does.
#pragma once

#include "runtime/cuda_profile/attention_bench.h"
#include "runtime/cuda_profile/product_bench.h"

namespace sluice::cuda {

// Of a layer of 3072 features on 8192 tokens: products for about four tenths of the time, attention forward for one and
// a half and backward for the rest, as at 32K tokens of a model of 3 billion parameters. About 6 ms on an H200.
class StepMix {
public:
    StepMix(Gemms& gemms, AttentionPlans& plans, GpuTimer& timer);

    // Each puts its work on the timer's stream.
    void put();
    void product();  // the largest of the layer
    void attention_forward();
    void attention_backward();

private:
    LayerProducts layer_;
    Attention shape_;
    ProductBench products_;
    AttentionBench attention_;
};

}  // namespace sluice::cuda
