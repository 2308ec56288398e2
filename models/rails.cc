#include "models/rails.h"

#include <algorithm>
#include <map>

namespace sluice {
namespace {

struct Use {  // of an adapter by members
    RailGate gate;
    std::uint32_t members = 0;
};

using Uses = std::map<std::int64_t, Use>;  // by adapter

}  // namespace

std::int64_t adapter_of(std::int64_t local, const Cluster& c) { return local * c.network.nics / c.gpus_per_node; }

Rails rails_of(const std::vector<Rank>& members, const Cluster& cluster) {
    const auto node = [&](Rank r) { return static_cast<std::int64_t>(index(r)) / cluster.gpus_per_node; };
    const auto adapter = [&](Rank r) {
        return adapter_of(static_cast<std::int64_t>(index(r)) % cluster.gpus_per_node, cluster);
    };
    std::map<std::int64_t, Uses> nodes;
    for (const Rank r : members) {
        Use& use = nodes[node(r)][adapter(r)];
        if (use.members++ == 0) use.gate.in = r;
        use.gate.out = r;
    }
    Rails rails;
    if (nodes.empty()) return rails;
    const auto fewest = std::min_element(
        nodes.begin(), nodes.end(), [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    rails.count = fewest->second.size();
    for (const Rank r : members) {
        const Uses& uses = nodes[node(r)];
        auto use = uses.begin();
        for (std::size_t rail = 0; rail < rails.count; ++rail, ++use) rails.gates.push_back(use->second.gate);
        rails.sharers.push_back(uses.at(adapter(r)).members);
    }
    return rails;
}

}  // namespace sluice
