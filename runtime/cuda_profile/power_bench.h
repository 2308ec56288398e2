// Times how much faster a GPU computes that has paused.
#pragma once

#include "runtime/cuda_profile/step_mix.h"
#include "runtime/profile/power_limit_of.h"

namespace sluice::cuda {

// On a GPU that does nothing else; about ten seconds, `quick` three.
PowerFigures power_figures(StepMix& mix, GpuTimer& timer, bool quick);

}  // namespace sluice::cuda
