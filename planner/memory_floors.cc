#include "planner/memory_floors.h"

#include <algorithm>
#include <variant>

#include "models/device_memory.h"

namespace sluice {

namespace {

// What recomputing everything takes from the units of a stage at most, one sequence's.
Bytes cheap_of(const LiveModel& model, std::int64_t layers_per_slot) {
    Bytes sum{};
    for (const Bytes cheap : model.cheap()) sum += cheap * layers_per_slot;
    return sum;
}

}  // namespace

std::vector<MemoryNeed> memory_floors(const PlacementContext& context, const std::vector<StagePlan>& stages) {
    const Scenario& s = context.scenario;
    const bool three_way = std::holds_alternative<ThreeWay>(s.policy.placement);
    if (!three_way && !std::holds_alternative<AdaptiveOffload>(s.policy.placement)) return {};
    std::vector<ArenaUse> device;
    std::vector<Bytes> pinned;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        const LiveModel& model = context.models[stage];
        const std::vector<Bytes>& all = stages[stage].activation;
        Bytes kept = model.peak(std::vector<Bytes>(all.size()));
        if (three_way) kept -= cheap_of(model, layers_per_slot(s, stages[stage]));
        device.push_back({three_way ? model.floor() : model.peak(all), {}});
        pinned.push_back(std::max(Bytes{}, kept - usable_device_memory(s, Bytes{})));
    }
    return memory_needs(s, device, pinned);
}

}  // namespace sluice
