#include "schedule/ring.h"

#include "base/error.h"

namespace sluice {

double ring_fraction(CollectiveKind kind, std::size_t members) {
    if (members <= 1) return 0;
    const double share = static_cast<double>(members - 1) / static_cast<double>(members);
    switch (kind) {
        case CollectiveKind::kAllGather:
        case CollectiveKind::kReduceScatter:
        case CollectiveKind::kAllToAll:
            return share;
        case CollectiveKind::kAllReduce:
            return 2 * share;
        case CollectiveKind::kBroadcast:
        case CollectiveKind::kReduce:
            return 1;
    }
    SLUICE_CHECK(false, "a collective kind without a cost");
}

std::size_t ring_steps(CollectiveKind kind, std::size_t members) {
    if (members <= 1) return 0;
    return kind == CollectiveKind::kAllReduce ? 2 * (members - 1) : members - 1;
}

}  // namespace sluice
