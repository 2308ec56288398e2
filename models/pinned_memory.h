// Where the pinned memory of the ranks lies: bytes by NUMA node, whether they fit, how long pinning takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "scenarios/cluster.h"
#include "schedule/schedule.h"

namespace sluice {

// By rank, as the cluster's ranks allocate it.
std::vector<Bytes> pinned_bytes(const Schedule&, HostAllocator);

// Rank r runs on GPU r of the cluster.
struct PinnedMemory {
    std::vector<std::vector<Bytes>> by_rank;  // [rank][NUMA node of its node]
    std::vector<std::vector<Bytes>> by_node;  // [node][NUMA node]: the sums over its ranks
    std::size_t largest_node() const;         // with most bytes, the lowest of equals. Requires: there is one
};

// Exact: every byte of every rank lies on one NUMA node.
//   local        all on the GPU's own
//   interleave   equal parts, the first nodes a byte more where they do not divide
//   first        in rank order on NUMA node 0 up to what is usable there, then on the next; what fits nowhere on the
//   last
// Requires: one entry per rank, no more ranks than GPUs.
PinnedMemory place_pinned(std::span<const Bytes> by_rank, const Cluster&);

// One line per node that has less host memory than its ranks pin; with local placement per NUMA node. Empty: fits.
// The share of a NUMA node is host.usable() / numa_nodes.
std::vector<std::string> host_shortages(const PinnedMemory&, const Cluster&);

// All NUMA nodes pin at the same time; the fullest decides. None where the cluster has no rate for it.
std::optional<Seconds> pin_time(const PinnedMemory&, const Cluster&);

}  // namespace sluice
