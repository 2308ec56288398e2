// Times how much faster a GPU computes that has paused, or of which only a part computes.
#pragma once

#include "runtime/cuda_profile/step_mix.h"
#include "runtime/profile/power_limit_of.h"

namespace sluice::cuda {

// On a GPU that does nothing else; about ten seconds, `quick` three.
PowerFigures power_figures(StepMix& mix, GpuTimer& timer, bool quick);

// What the mix is made of, each after the mix again and again: on a part of a GPU, beside whatever the others do.
struct SteadyTimes {
    Seconds gemm{}, attention_forward{}, attention_backward{};
};
SteadyTimes steady_times(StepMix& mix, GpuTimer& timer, bool quick);

}  // namespace sluice::cuda
