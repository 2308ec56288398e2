#include "runtime/cuda_profile/step_mix.h"

namespace sluice::cuda {
namespace {

constexpr std::int64_t kTokens = 8192, kHidden = 3072, kFfn = 8192;
constexpr Seconds kUnused{0};  // neither bench is asked for a time

}  // namespace

StepMix::StepMix(Gemms& gemms, AttentionPlans& plans, GpuTimer& timer)
    : layer_(layer_products(kTokens, kHidden, {2 * kFfn})),
      shape_(profiled_attention_shape(kTokens, kTokens)),
      products_(gemms, timer, kUnused, {layer_}),
      attention_(plans, timer, kUnused, {shape_}, [](std::size_t) {}) {
    products_.prepare(layer_.forward.front());
}

void StepMix::product() { products_.run(layer_.forward.front()); }
void StepMix::attention_forward() { attention_.forward(shape_); }
void StepMix::attention_backward() { attention_.backward(shape_); }

void StepMix::put() {
    product();
    attention_forward();
    product();
    attention_backward();
}

}  // namespace sluice::cuda
