#include "sim/collectives.h"

#include <cmath>
#include <cstdint>

#include "models/collective_cost.h"

namespace sluice {
namespace {

Bytes whole(double bytes) { return Bytes{std::llround(bytes)}; }

void ring(const std::vector<Rank>& members, Bytes each, std::vector<MemberFlow>& flows) {
    for (std::size_t i = 0; i < members.size(); ++i) {
        flows.push_back({members[i], members[(i + 1) % members.size()], each});
    }
}

void chain(const std::vector<Rank>& members, std::size_t root, bool to_root, Bytes each,
           std::vector<MemberFlow>& flows) {
    for (std::size_t hop = 0; hop + 1 < members.size(); ++hop) {
        const Rank near = members[(root + hop) % members.size()];
        const Rank far = members[(root + hop + 1) % members.size()];
        flows.push_back(to_root ? MemberFlow{far, near, each} : MemberFlow{near, far, each});
    }
}

void everyone_to_everyone(const std::vector<Rank>& members, Bytes each, std::vector<MemberFlow>& flows) {
    for (std::size_t distance = 1; distance < members.size(); ++distance) {
        for (std::size_t i = 0; i < members.size(); ++i) {
            flows.push_back({members[i], members[(i + distance) % members.size()], each});
        }
    }
}

}  // namespace

void expand(const Collective& collective, const std::vector<Rank>& members, std::vector<MemberFlow>& flows) {
    const std::size_t n = members.size();
    if (n <= 1) return;
    const double all_calls = static_cast<double>(collective.bytes.value) * collective.calls;
    const Bytes each = whole(ring_fraction(collective.kind, n) * all_calls);
    switch (collective.kind) {
        case CollectiveKind::kAllGather:
        case CollectiveKind::kReduceScatter:
        case CollectiveKind::kAllReduce:
            ring(members, each, flows);
            break;
        case CollectiveKind::kBroadcast:
            chain(members, collective.root, false, each, flows);
            break;
        case CollectiveKind::kReduce:
            chain(members, collective.root, true, each, flows);
            break;
        case CollectiveKind::kAllToAll:
            everyone_to_everyone(members, whole(all_calls / static_cast<double>(n)), flows);
            break;
    }
}

}  // namespace sluice
