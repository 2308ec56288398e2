// What calibration files call the memory-bound kernels. The general names are those of schedules and reports.
#pragma once

#include <string_view>

#include "scenarios/calibration.h"

namespace sluice {

struct PointwiseKernelName {
    PointwiseKernel kernel;
    std::string_view name;
};

// In the order of the enumeration.
inline constexpr PointwiseKernelName kPointwiseKernelNames[] = {
    {PointwiseKernel::kNorm, "norm"},
    {PointwiseKernel::kRope, "rope"},
    {PointwiseKernel::kActivation, "activation"},
    {PointwiseKernel::kResidual, "residual"},
    {PointwiseKernel::kEmbedding, "embedding"},
    {PointwiseKernel::kCrossEntropy, "cross_entropy"},
    {PointwiseKernel::kAccumulate, "accumulate"},
    {PointwiseKernel::kAdamw, "adamw"},
    {PointwiseKernel::kOther, "other"},
    {PointwiseKernel::kLayerNorm, "layer_norm"},
    {PointwiseKernel::kRmsNorm, "rms_norm"},
    {PointwiseKernel::kGelu, "gelu"},
    {PointwiseKernel::kSwiglu, "swiglu"},
};

constexpr std::string_view name(PointwiseKernel kernel) {
    return kPointwiseKernelNames[static_cast<std::size_t>(kernel)].name;
}

}  // namespace sluice
