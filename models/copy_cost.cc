#include "models/copy_cost.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

// What host memory gives one GPU of NUMA node `numa`, per direction. A copy that leaves its NUMA node crosses what joins
// it to the others, on both ends.
BytesPerSecond host_share(const Cluster& c, std::int64_t numa) {
    const HostMemory& host = c.host;
    const auto gpus_per_numa = static_cast<double>((c.gpus_per_node + host.numa_nodes - 1) / host.numa_nodes);
    const auto others = static_cast<double>(host.numa_nodes - 1);
    if (host.numa == NumaPlacement::kLocal || others == 0) return host.bandwidth / gpus_per_numa;
    if (host.numa == NumaPlacement::kInterleave) {
        const double sharers = gpus_per_numa * others / (others + 1);  // each sends that part of its bytes away
        return std::min(host.bandwidth / gpus_per_numa, host.cross_bandwidth / sharers);
    }
    const BytesPerSecond dram = host.bandwidth / static_cast<double>(c.gpus_per_node);
    return numa == 0 ? dram : std::min(dram, host.cross_bandwidth / (gpus_per_numa * others));
}

BytesPerSecond share(const Cluster& c, BytesPerSecond link, BytesPerSecond uplink, std::int64_t numa) {
    return std::min({link / static_cast<double>(c.gpu.parts), uplink / static_cast<double>(c.pcie.gpus_per_switch),
                     host_share(c, numa)});
}

Bytes hidden(BytesPerSecond rate, Seconds latency, Seconds window) {
    const double bytes = rate * std::max(window - latency, Seconds{0});
    return Bytes{static_cast<std::int64_t>(std::min(std::floor(bytes), 9e18))};
}

}  // namespace

BytesPerSecond shared_d2h(const Cluster& c, std::int64_t gpu) {
    return share(c, c.pcie.d2h, c.pcie.switch_d2h, c.numa_of(gpu));
}
BytesPerSecond shared_h2d(const Cluster& c, std::int64_t gpu) {
    return share(c, c.pcie.h2d, c.pcie.switch_h2d, c.numa_of(gpu));
}

// GPUs of the last NUMA node are as slow as any: with `first` the others' memory is remote, else all are alike.
BytesPerSecond shared_d2h(const Cluster& c) { return shared_d2h(c, c.gpus_per_node - 1); }
BytesPerSecond shared_h2d(const Cluster& c) { return shared_h2d(c, c.gpus_per_node - 1); }

Bytes hidden_d2h(const Cluster& c, Seconds window) { return hidden(shared_d2h(c), c.pcie.latency, window); }
Bytes hidden_h2d(const Cluster& c, Seconds window) { return hidden(shared_h2d(c), c.pcie.latency, window); }

}  // namespace sluice
