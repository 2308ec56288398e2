// The links of a cluster and which of them the traffic between two places crosses. No simulator in here: this is the
// part of the model that can be read, drawn and tested by hand. docs/simulator.md has the picture.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "scenarios/cluster.h"

namespace sluice {

enum class LinkId : std::uint32_t {};
enum class Endpoint : std::uint32_t {};

// Flows that cross a link at the same time share its rate equally, except where another link holds one of them below
// its share (max-min fairness). No flow goes faster than the slowest of its links.
struct Link {
    std::string name;
    BytesPerSecond rate{};
};

using Path = std::vector<LinkId>;

// Ranks 0 .. ranks-1 run on GPUs 0 .. ranks-1 of the cluster.
class Topology {
public:
    // Requires: ranks <= cluster.gpus().
    Topology(const Cluster& cluster, std::size_t ranks);

    const std::vector<Link>& links() const { return links_; }
    std::size_t ranks() const { return ranks_; }
    std::size_t endpoints() const { return 2 * ranks_ + numa_.size(); }

    // A GPU's memory; the same reached through the rank's collective channel; the DRAM of a NUMA node of the rank's
    // node: the GPU's own, or any.
    Endpoint gpu(Rank r) const { return Endpoint{static_cast<std::uint32_t>(index(r))}; }
    Endpoint channel(Rank r) const { return Endpoint{static_cast<std::uint32_t>(ranks_ + index(r))}; }
    Endpoint memory(Rank r) const;
    Endpoint memory(Rank r, std::size_t numa) const;
    std::string name(Endpoint e) const;

    // gpu(r) -> memory, memory -> gpu(r); a memory of the rank's node. That of another NUMA node than the GPU's own is
    // reached over what joins the two: out of the one that the bytes leave, into the one that they enter.
    Path copy_out(Rank r, Endpoint memory) const;
    Path copy_in(Endpoint memory, Rank r) const;
    Path copy_out(Rank r) const { return copy_out(r, memory(r)); }
    Path copy_in(Rank r) const { return copy_in(memory(r), r); }
    Path transfer(Rank from, Rank to) const;    // gpu(from) -> gpu(to); different ranks
    Path collective(Rank from, Rank to) const;  // channel(from) -> gpu(to): the cap link, then as transfer

    // Paid once, before the first byte moves. Those of collectives come from the calibration.
    Seconds copy_latency() const { return cluster_.pcie.latency; }
    Seconds transfer_latency(Rank from, Rank to) const;

    // What caps the flows of a rank's current collective at the measured bus bandwidth: links of its own whose rates
    // are set when a collective starts (a rank runs one at a time); one for hops inside its node, one for its adapter.
    LinkId cap_link(Rank from, Rank to) const;

    bool same_node(Rank a, Rank b) const { return node(a) == node(b); }

private:
    struct Gpu {
        LinkId out, in;  // its PCIe link, per direction
        LinkId both;     // both directions together; same as `out` when that does not bind
        LinkId switch_out, switch_in;
        LinkId nvlink_out, nvlink_in;
        LinkId memory;  // what copies between parts of this device share; parts only
        LinkId nic_out, nic_in;
        LinkId channel, rail;    // caps inside the node, between nodes
        std::uint32_t numa = 0;  // over all nodes
    };

    struct Numa {
        LinkId dram;
        LinkId out, in;  // to and from the other NUMA nodes of its node
    };

    LinkId add(std::string name, BytesPerSecond rate);
    void add_numa(std::int64_t node);
    const Numa& numa(Endpoint memory) const { return numa_[static_cast<std::size_t>(memory) - 2 * ranks_]; }
    void add_shared(std::int64_t node, std::vector<Gpu>& of_node);
    void add_pcie(std::int64_t node, std::int64_t device, std::span<Gpu> parts);
    void add_own(std::int64_t node, std::int64_t local, Gpu& gpu);
    std::int64_t node(Rank r) const;
    void push_out(Path& path, const Gpu& gpu) const;
    void push_in(Path& path, const Gpu& gpu) const;

    Cluster cluster_;
    std::size_t ranks_ = 0;
    bool duplex_binds_ = false;
    std::vector<Link> links_;
    std::vector<Gpu> gpus_;   // by rank
    std::vector<Numa> numa_;  // of all nodes
};

}  // namespace sluice
