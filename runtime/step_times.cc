#include "runtime/step_times.h"

namespace sluice {

StepTimes::StepTimes(const Schedule& schedule) : ops(schedule.ops.size()) {
    first_lap.reserve(schedule.ops.size() + 1);
    std::size_t count = 0;
    for (const Op& op : schedule.ops) {
        first_lap.push_back(static_cast<std::uint32_t>(count));
        if (const auto* compute = std::get_if<Compute>(&op.work)) count += compute->kernels.size();
    }
    first_lap.push_back(static_cast<std::uint32_t>(count));
    laps.resize(count, 0);
}

std::span<std::int64_t> StepTimes::laps_of(OpId op) {
    const std::uint32_t first = first_lap[index(op)];
    return std::span(laps).subspan(first, first_lap[index(op) + 1] - first);
}

std::span<const std::int64_t> StepTimes::laps_of(OpId op) const {
    const std::uint32_t first = first_lap[index(op)];
    return std::span(laps).subspan(first, first_lap[index(op) + 1] - first);
}

}  // namespace sluice
