#include "planner/plan.h"

#include <algorithm>

namespace sluice {

bool StagePlan::recomputes() const {
    return std::any_of(recomputed.begin(), recomputed.end(), [](std::int64_t r) { return r > 0; });
}

Bytes offloaded_bytes(const Plan& plan) {
    Bytes sum{};
    for (const StagePlan& stage : plan.stages)
        for (const Bytes bytes : stage.offloaded) sum += bytes;
    return sum;
}

std::int64_t recomputed_layers(const Plan& plan) {
    std::int64_t sum = 0;
    for (const StagePlan& stage : plan.stages)
        for (const std::int64_t layers : stage.recomputed) sum += layers;
    return sum;
}

}  // namespace sluice
