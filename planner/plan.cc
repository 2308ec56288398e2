#include "planner/plan.h"

#include <algorithm>

namespace sluice {

bool StagePlan::recomputes() const {
    return std::any_of(recomputed.begin(), recomputed.end(), [](std::int64_t r) { return r > 0; });
}

std::vector<StagePlan> split_layers(std::int64_t layers, std::int64_t stages) {
    std::vector<StagePlan> plans(static_cast<std::size_t>(stages));
    std::int64_t first = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
        StagePlan& plan = plans[static_cast<std::size_t>(s)];
        plan.first_layer = first;
        plan.layers = layers / stages + (s < layers % stages ? 1 : 0);
        first += plan.layers;
    }
    return plans;
}

}  // namespace sluice
