// A cluster of equal nodes: what a GPU can do, and which links its traffic shares. Rates are sustained, not nominal, unless
// the file says otherwise; every file names the source of each number.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace sluice {

struct Gpu {
    std::string name;
    Bytes memory{};                    // whole
    Bytes reserved{};                  // context, libraries, communicator buffers: not for schedules
    FlopsPerSecond peak{};             // dense bf16 tensor-core peak, the denominator of MFU
    BytesPerSecond memory_bandwidth{}; // nominal HBM bandwidth

    Bytes usable() const { return memory - reserved; }
};

// GPU <-> host. `d2h`, `h2d`: one GPU alone. `duplex`: both directions of one GPU together.
struct Pcie {
    BytesPerSecond d2h{}, h2d{}, duplex{};
    Seconds latency{};                            // per copy
    std::int64_t gpus_per_switch = 1;             // divides the GPUs of a NUMA node
    BytesPerSecond switch_d2h{}, switch_h2d{};    // uplink of the switch, shared by its GPUs
};

struct HostMemory {
    Bytes memory{};              // per node
    Bytes reserved{};            // per node: the system, the data loader; not for pinned buffers
    std::int64_t numa_nodes = 1; // per node; GPUs are spread over them in order
    BytesPerSecond bandwidth{};  // DRAM of one NUMA node, shared by all copies of its GPUs, both directions together

    Bytes usable() const { return memory - reserved; }
};

struct Nvlink {
    BytesPerSecond bandwidth{};  // per GPU and direction, through the switch; 0: none, peers go over PCIe
    Seconds latency{};
};

struct Network {
    std::int64_t nics = 0;       // per node; GPUs are spread over them in order. 0: single node only
    BytesPerSecond bandwidth{};  // per NIC and direction
    Seconds latency{};
    bool nic_shares_gpu_pcie = true;  // GPU-direct: traffic crosses the GPU's own PCIe link
};

struct Cluster {
    std::string name;
    std::int64_t nodes = 1;
    std::int64_t gpus_per_node = 1;
    Gpu gpu;
    Pcie pcie;
    HostMemory host;
    Nvlink nvlink;
    Network network;

    std::int64_t gpus() const { return nodes * gpus_per_node; }
};

}  // namespace sluice
