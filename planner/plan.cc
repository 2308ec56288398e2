#include "planner/plan.h"

#include <algorithm>

namespace sluice {

bool StagePlan::recomputes() const {
    return std::any_of(recomputed.begin(), recomputed.end(), [](std::int64_t r) { return r > 0; });
}

}  // namespace sluice
