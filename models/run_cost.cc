#include "models/run_cost.h"

#include <cmath>
#include <limits>

#include "models/rank_memory.h"

namespace sluice {

Bytes checkpoint_bytes(const Scenario& s) {
    const std::int64_t parameters = model_parameters(s);
    return weight_bytes(s, parameters) + optimizer_bytes(s, parameters);
}

RunCost run_cost(Tokens tokens, const RunStep& step, const RunTerms& terms) {
    RunCost cost;
    cost.steps = tokens.value / step.tokens.value + (tokens.value % step.tokens.value != 0 ? 1 : 0);
    cost.work = step.time * static_cast<double>(cost.steps);
    cost.checkpoint = step.state / (terms.storage_rate * static_cast<double>(step.nodes));
    cost.pinning = step.pin_time ? *step.pin_time : step.pinned_per_node / terms.pin_rate;
    cost.initialisation = terms.startup + cost.pinning + cost.checkpoint;
    const double intervals = std::ceil(cost.work / terms.checkpoint_interval);
    cost.checkpoint_count = static_cast<std::int64_t>(intervals) - 1;
    cost.checkpoints = cost.checkpoint * static_cast<double>(cost.checkpoint_count);

    cost.mtbf = terms.mtbf_per_gpu / static_cast<double>(step.gpus);
    cost.best_interval = Seconds{std::sqrt(2 * cost.checkpoint.value * cost.mtbf.value)};
    const Seconds interval = std::min(terms.checkpoint_interval, cost.work);
    const Seconds lost = (interval + cost.checkpoint) / 2.0 + terms.restart + cost.initialisation;
    const double share = lost / cost.mtbf;
    cost.finishes = share < 1;
    const Seconds undisturbed = cost.work + cost.checkpoints;
    const Seconds training =
        cost.finishes ? undisturbed / (1 - share) : Seconds{std::numeric_limits<double>::infinity()};
    cost.failures = training - undisturbed;
    cost.failure_count = training / cost.mtbf;
    cost.total = cost.initialisation + training;
    cost.gpu_hours = cost.total.value / 3600 * static_cast<double>(step.gpus);
    return cost;
}

}  // namespace sluice
