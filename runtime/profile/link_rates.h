// Rates of the links of a node, and what a cluster has of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "scenarios/cluster.h"
#include "scenarios/nvbandwidth_run.h"

namespace sluice {

// Copies of pinned memory in large pieces. What is not there was not measured.
struct LinkRates {
    std::size_t gpus = 0;                   // that copied
    std::optional<BytesPerSecond> out, in;  // device to host, host to device: one GPU alone, the median one
    std::optional<BytesPerSecond> out_beside_in, in_beside_out;          // of one GPU that copies both ways
    std::optional<BytesPerSecond> all_out, all_in;                       // of all GPUs at once, one way: sum
    std::optional<BytesPerSecond> all_out_beside_in, all_in_beside_out;  // of all GPUs at once, both ways: sum of each
    std::optional<BytesPerSecond> peer;  // from GPU to GPU, one pair alone, the median one
};

// By copy engine, as the product copies. Throws InputError where a matrix has another form than its test gives it.
LinkRates link_rates(const NvbandwidthRun& run, const std::string& origin);

// Those of both; of what both have the mean.
LinkRates merged(const LinkRates& a, const LinkRates& b);

// Puts into the cluster what was measured: pcie, nvlink.bandwidth, the uplinks of switches and host.bandwidth, these
// two where all GPUs of a node copied. Returns the blocks that it changed, by their keys, sorted.
std::vector<std::string> set_links(Cluster& cluster, const LinkRates& rates);

}  // namespace sluice
