#include <algorithm>

#include "scenarios/architecture.h"
#include "scenarios/calibration.h"

namespace sluice {
namespace {

struct Form {
    PointwiseKernel special, general;
    bool chosen;  // by the model
};

// Rows of `special` go, or where chosen take the place of those of `general`.
void settle(std::vector<PointwisePoint>& points, const Form& form) {
    const auto is = [](PointwiseKernel kernel) { return [=](const PointwisePoint& p) { return p.kernel == kernel; }; };
    if (std::none_of(points.begin(), points.end(), is(form.special))) return;
    std::erase_if(points, is(form.chosen ? form.general : form.special));
    for (PointwisePoint& point : points)
        if (point.kernel == form.special) point.kernel = form.general;
}

void settle(std::vector<PointwiseKernel>& fused, const Form& form) {
    const auto at = std::find(fused.begin(), fused.end(), form.special);
    if (at == fused.end()) return;
    fused.erase(at);
    if (form.chosen && std::find(fused.begin(), fused.end(), form.general) == fused.end())
        fused.push_back(form.general);
}

}  // namespace

Calibration calibration_of_model(Calibration calibration, const Architecture& model) {
    using enum PointwiseKernel;
    const Form forms[] = {{kLayerNorm, kNorm, model.norm == Norm::kLayerNorm},
                          {kRmsNorm, kNorm, model.norm == Norm::kRmsNorm},
                          {kGelu, kActivation, model.activation == ActivationFunction::kGelu},
                          {kSwiglu, kActivation, model.activation == ActivationFunction::kSwiglu}};
    for (const Form& form : forms) {
        settle(calibration.pointwise_kernels, form);
        settle(calibration.fused, form);
    }
    return calibration;
}

}  // namespace sluice
