#include "planner/scaled.h"

#include <cmath>

namespace sluice {
namespace {

template <class Rate>
void grow(Rate& rate, double factor) {
    rate = rate * factor;
}

void grow(Bytes& bytes, double factor) {
    bytes = Bytes{static_cast<std::int64_t>(std::floor(static_cast<double>(bytes.value) * factor))};
}

void grow_table(std::vector<BandwidthPoint>& table, double factor) {
    for (BandwidthPoint& point : table) grow(point.bus_bandwidth, factor);
}

void grow_flops(Scenario& s, double factor) {
    for (GemmPoint& point : s.calibration.gemm) grow(point.rate, factor);
    for (AttentionPoint& point : s.calibration.attention) grow(point.forward, factor), grow(point.backward, factor);
    grow(s.cluster.gpu.peak, factor);
}

// What copies of both directions share.
void grow_shared_copy_links(Cluster& c, double factor) {
    grow(c.pcie.duplex, factor);
    grow(c.host.bandwidth, factor);
    grow(c.host.cross_bandwidth, factor);
}

}  // namespace

std::string_view name(Resource resource) {
    switch (resource) {
        case Resource::kFlops:
            return "FLOP/s";
        case Resource::kD2h:
            return "D2H";
        case Resource::kH2d:
            return "H2D";
        case Resource::kNvlink:
            return "NVLink";
        case Resource::kNic:
            return "NIC";
        case Resource::kGpuMemory:
            return "GPU memory";
        case Resource::kHostMemory:
            return "host memory";
    }
    return "?";
}

Scenario scaled(Scenario s, Resource resource, double factor) {
    Cluster& c = s.cluster;
    switch (resource) {
        case Resource::kFlops:
            grow_flops(s, factor);
            break;
        case Resource::kD2h:
            grow(c.pcie.d2h, factor), grow(c.pcie.switch_d2h, factor), grow_shared_copy_links(c, factor);
            break;
        case Resource::kH2d:
            grow(c.pcie.h2d, factor), grow(c.pcie.switch_h2d, factor), grow_shared_copy_links(c, factor);
            break;
        case Resource::kNvlink:
            grow(c.nvlink.bandwidth, factor), grow_table(s.calibration.nvlink_collective, factor);
            break;
        case Resource::kNic:
            grow(c.network.bandwidth, factor), grow_table(s.calibration.network_collective, factor);
            break;
        case Resource::kGpuMemory:
            grow(c.gpu.memory, factor);
            break;
        case Resource::kHostMemory:
            grow(c.host.memory, factor);
            break;
    }
    return s;
}

}  // namespace sluice
