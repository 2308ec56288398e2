#include "planner/memory_floors.h"

#include <variant>

namespace sluice {

std::vector<MemoryNeed> memory_floors(const OffloadContext& context, const std::vector<StagePlan>& stages) {
    const Scenario& s = context.scenario;
    if (!std::holds_alternative<AdaptiveOffload>(s.policy.placement)) return {};
    std::vector<ArenaUse> device;
    std::vector<Bytes> pinned;
    for (std::size_t stage = 0; stage < stages.size(); ++stage) {
        const LiveModel& model = context.models[stage];
        const std::vector<Bytes>& all = stages[stage].activation;
        const Bytes kept = model.peak(std::vector<Bytes>(all.size()));
        device.push_back({model.peak(all), {}});
        pinned.push_back(kept > s.cluster.gpu.usable() ? kept - s.cluster.gpu.usable() : Bytes{});
    }
    return memory_needs(s, device, pinned);
}

}  // namespace sluice
