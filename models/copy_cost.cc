#include "models/copy_cost.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

BytesPerSecond share(const Cluster& c, BytesPerSecond link, BytesPerSecond uplink) {
    const auto gpus_per_numa = static_cast<double>((c.gpus_per_node + c.host.numa_nodes - 1) / c.host.numa_nodes);
    return std::min({link, uplink / static_cast<double>(c.pcie.gpus_per_switch), c.host.bandwidth / gpus_per_numa});
}

Bytes hidden(BytesPerSecond rate, Seconds latency, Seconds window) {
    const double bytes = rate * std::max(window - latency, Seconds{0});
    return Bytes{static_cast<std::int64_t>(std::min(std::floor(bytes), 9e18))};
}

}  // namespace

BytesPerSecond shared_d2h(const Cluster& c) { return share(c, c.pcie.d2h, c.pcie.switch_d2h); }
BytesPerSecond shared_h2d(const Cluster& c) { return share(c, c.pcie.h2d, c.pcie.switch_h2d); }

Bytes hidden_d2h(const Cluster& c, Seconds window) { return hidden(shared_d2h(c), c.pcie.latency, window); }
Bytes hidden_h2d(const Cluster& c, Seconds window) { return hidden(shared_h2d(c), c.pcie.latency, window); }

}  // namespace sluice
