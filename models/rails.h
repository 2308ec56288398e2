// Which adapters the ranks of a group use between nodes. NCCL lays one ring (or more) over every adapter, so a node
// that has several sends through all of them at once: its rails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "scenarios/cluster.h"

namespace sluice {

// GPUs of a node use its adapters in order: GPU `local` (0 .. gpus_per_node-1) uses this one. 0 without a network.
std::int64_t adapter_of(std::int64_t local, const Cluster&);

// Where one rail enters and leaves a node: the first and the last member there that uses the rail's adapter. Two
// members when the adapter has two: a ring visits a GPU once, so it does not leave by the GPU that it came in by.
struct RailGate {
    Rank in{}, out{};
};

struct Rails {
    // Rings of the group, at least 1: the fewest adapters that its members use on any of its nodes, since every ring
    // crosses every node. 1 for a group with one rank per node.
    std::size_t count = 1;
    std::vector<RailGate> gates;         // by member, then rail (in order of adapters); alike for members of one node
    std::vector<std::uint32_t> sharers;  // by member: members of its node that use its adapter, itself included

    const RailGate& gate(std::size_t member, std::size_t rail) const { return gates[member * count + rail]; }
    bool same_node(std::size_t a, std::size_t b) const { return gate(a, 0).in == gate(b, 0).in; }
};

// Rank r runs on GPU r of the cluster. Requires: the ranks differ and the cluster has them.
Rails rails_of(const std::vector<Rank>& members, const Cluster& cluster);

}  // namespace sluice
