#include "sim/provenance.h"

#include <fmt/format.h>

#include "sim/platform.h"

namespace sluice {
namespace {

std::string hardware(std::size_t ranks, const Cluster& c) {
    return fmt::format("cluster {}: {} of {} {}, {} per node, simulated", c.name, ranks, c.gpus(), c.gpu.name,
                       c.gpus_per_node);
}

std::string host_memory_omission(const HostMemory& host) {
    const bool local = host.numa == NumaPlacement::kLocal || host.numa_nodes == 1;
    return fmt::format("{}; nothing but copies uses host DRAM",
                       local ? "copies use the DRAM of the GPU's own NUMA node"
                             : "every copy of a rank divides over NUMA nodes as its pinned memory does");
}

std::vector<std::string> omissions(const Cluster& cluster, const Calibration& calibration) {
    std::vector<std::string> all = {
        "kernels take their time from the calibration alone: no thermal limits, no variation between GPUs",
        "the host CPU takes no time: launches are covered by the gap per kernel, everything else by nothing",
        "collectives are rings, chains or direct exchanges: no trees, no in-switch reduction, no choice by the library",
        "across nodes only the NICs limit traffic: no congestion inside the network",
        host_memory_omission(cluster.host),
        "sends, receives and kernels that wait for a partner do not slow compute",
    };
    if (calibration.power_limit.window.value <= 0)
        all.emplace_back("a GPU that waits does not compute faster afterwards: the calibration has no power_limit");
    const Interference& factors = calibration.interference;
    if (factors.copy_out == 1 && factors.copy_in == 1 && factors.collective == 1) {
        all.emplace_back("copies and collectives do not slow compute: the calibration has no such factors");
    }
    if (cluster.gpu.parts > 1)
        all.emplace_back(
            "parts of a GPU compute at the calibration's rates beside others that compute, but for memory-bound "
            "kernels beside idle ones and the limit of power: no sharing of caches");
    if (calibration.nvlink_collective.empty() || calibration.network_collective.empty()) {
        all.emplace_back("where the calibration has no table of collectives, links alone limit their rate");
    }
    return all;
}

}  // namespace

Provenance replay_provenance(std::size_t ranks, const Cluster& cluster, const Calibration& calibration) {
    Provenance p;
    p.producer = "simgrid replay";
    p.calibration = calibration.name;
    p.hardware = hardware(ranks, cluster);
    p.versions = {{"sluice", SLUICE_VERSION}, {"simgrid", simgrid_version()}};
    p.omissions = omissions(cluster, calibration);
    return p;
}

}  // namespace sluice
