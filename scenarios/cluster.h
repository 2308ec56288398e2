// A cluster of equal nodes: what a GPU can do, and which links its traffic shares. Rates are sustained, not nominal, unless
// the file says otherwise; every file names the source of each number.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace sluice {

// Where `parts` is above 1 the node has one device, and what is called a GPU everywhere else is a part of it: a share
// of the multiprocessors and of the memory. Parts share the bandwidth of that memory, the copy engines and the PCIe
// link.
struct Gpu {
    std::string name;
    Bytes memory{};                     // whole; of a part
    Bytes reserved{};                   // context, libraries, communicator buffers: not for schedules; of a part
    FlopsPerSecond peak{};              // dense bf16 tensor-core peak, the denominator of MFU; of a part
    BytesPerSecond memory_bandwidth{};  // nominal HBM bandwidth; of the device
    std::int64_t parts = 1;             // 1: none; else gpus_per_node
    Bytes reserved_per_token{};         // besides, for every token of a step: ids, and loaded kernels
    Bytes reserved_per_pinned_gib{};    // besides, for every GiB that the rank pins: the GPU's page tables
    Bytes margin{};                     // left free on top: what runs may need above these numbers

    // Before what a step's tokens and pinned bytes take: models/device_memory.h has that.
    Bytes usable() const { return memory - reserved - margin; }
    friend bool operator==(const Gpu&, const Gpu&) = default;
};

// GPU <-> host. `d2h`, `h2d`: one GPU alone (parts of one: all together). `duplex`: both directions of one GPU
// together.
struct Pcie {
    BytesPerSecond d2h{}, h2d{}, duplex{};
    Seconds latency{};                            // per copy
    std::int64_t gpus_per_switch = 1;             // divides the GPUs of a NUMA node
    BytesPerSecond switch_d2h{}, switch_h2d{};    // uplink of the switch, shared by its GPUs
    friend bool operator==(const Pcie&, const Pcie&) = default;
};

// On which NUMA node's memory a rank's pinned arena lies.
enum class NumaPlacement : std::uint8_t {
    kLocal,       // the GPU's own: processes bound to their NUMA node
    kInterleave,  // page by page over all of the node: numactl --interleave=all
    kFirst,       // the first until it is full, then the next: what an unbound process gets that runs on the first
};

// What is pinned for a rank's host buffers.
enum class HostAllocator : std::uint8_t {
    kExact,       // one arena of just the size that placement gave
    kPowerOfTwo,  // a block per buffer, rounded up to a power of two and reused for its size only, as PyTorch's caching
                  // host allocator does
};

struct HostMemory {
    Bytes memory{};              // per node
    Bytes reserved{};            // per node: the system, the data loader; not for pinned buffers
    std::int64_t numa_nodes = 1; // per node; GPUs are spread over them in order
    BytesPerSecond bandwidth{};  // DRAM of one NUMA node, shared by all copies of its GPUs, both directions together
    NumaPlacement numa = NumaPlacement::kLocal;
    BytesPerSecond cross_bandwidth{};  // of one NUMA node with the others, per direction, shared by all copies that
                                       // leave or enter it; 0: not known, local placement only
    HostAllocator allocator = HostAllocator::kExact;
    BytesPerSecond pin_rate{};  // at which the ranks of one NUMA node together pin memory at start-up; 0: not known

    Bytes usable() const { return memory - reserved; }
    Bytes usable_per_numa() const { return usable() / numa_nodes; }
    friend bool operator==(const HostMemory&, const HostMemory&) = default;
};

struct Nvlink {
    BytesPerSecond bandwidth{};  // per GPU and direction, through the switch; 0: none, peers go over PCIe. Between
                                 // parts of a GPU: of a copy in its memory
    Seconds latency{};
    friend bool operator==(const Nvlink&, const Nvlink&) = default;
};

struct Network {
    std::int64_t nics = 0;       // per node; GPUs are spread over them in order. 0: single node only
    BytesPerSecond bandwidth{};  // per NIC and direction
    Seconds latency{};
    bool nic_shares_gpu_pcie = true;  // GPU-direct: traffic crosses the GPU's own PCIe link
    friend bool operator==(const Network&, const Network&) = default;
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

    std::int64_t spare_gpus = 0;  // per node: GPUs that a node has besides, where a job takes part of it

    std::int64_t gpus() const { return nodes * gpus_per_node; }
    // NUMA node of a GPU, counted within its node.
    std::int64_t numa_of(std::int64_t gpu_of_node) const { return gpu_of_node * host.numa_nodes / gpus_per_node; }
};

}  // namespace sluice
