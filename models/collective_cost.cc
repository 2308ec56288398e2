#include "models/collective_cost.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "base/error.h"
#include "models/log_interpolation.h"

namespace sluice {

Seconds collective_latency(const Collective& c, std::size_t members, const Calibration& calibration) {
    if (members <= 1) return Seconds{0};
    const double steps = static_cast<double>(ring_steps(c.kind, members));
    return (calibration.collective_call + calibration.collective_step * steps) * static_cast<double>(c.calls);
}

BytesPerSecond bus_bandwidth(Bytes size, bool across_nodes, const Calibration& calibration) {
    constexpr BytesPerSecond kLinksDecide{std::numeric_limits<double>::infinity()};
    const std::vector<BandwidthPoint>& table =
        across_nodes ? calibration.network_collective : calibration.nvlink_collective;
    if (table.empty()) return kLinksDecide;
    const LogPosition at = log_position(static_cast<double>(size.value), table.size(),
                                        [&](std::size_t i) { return static_cast<double>(table[i].size.value); });
    const double rate = blend(table[at.low].bus_bandwidth.value, table[at.high].bus_bandwidth.value, at.weight);
    return rate > 0 ? BytesPerSecond{rate} : kLinksDecide;
}

Seconds collective_time(const Collective& c, std::size_t members, bool across_nodes, const Calibration& calibration,
                        std::size_t rails) {
    SLUICE_CHECK(rails >= 1, "a ring without an adapter");
    if (members <= 1) return Seconds{0};
    const double sent = ring_fraction(c.kind, members) * static_cast<double>(c.bytes.value) * c.calls;
    double rate = bus_bandwidth(c.bytes, across_nodes, calibration).value;
    if (across_nodes && rails > 1 && c.kind != CollectiveKind::kAllToAll) {
        rate = std::min(rate * static_cast<double>(rails), bus_bandwidth(c.bytes, false, calibration).value);
    }
    return collective_latency(c, members, calibration) + Seconds{sent / rate};
}

}  // namespace sluice
