#include "sim/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "models/rails.h"

namespace sluice {

Topology::Topology(const Cluster& cluster, std::size_t ranks) : cluster_(cluster), ranks_(ranks), gpus_(ranks) {
    SLUICE_CHECK(static_cast<std::int64_t>(ranks) <= cluster.gpus(),
                 "a schedule has more ranks than the cluster has GPUs");
    // A figure for both directions below that of one alone would contradict the other two; the links alone bind then.
    duplex_binds_ = cluster.pcie.duplex < cluster.pcie.d2h + cluster.pcie.h2d;
    const std::int64_t per_node = cluster.gpus_per_node;
    const auto used_nodes = (static_cast<std::int64_t>(ranks) + per_node - 1) / per_node;
    for (std::int64_t node = 0; node < used_nodes; ++node) {
        std::vector<Gpu> of_node(static_cast<std::size_t>(per_node));
        add_shared(node, of_node);
        for (std::int64_t local = 0; local < per_node; ++local) {
            const auto rank = static_cast<std::size_t>(node * per_node + local);
            if (rank >= ranks) break;
            gpus_[rank] = of_node[static_cast<std::size_t>(local)];
            add_own(node, local, gpus_[rank]);
        }
    }
}

LinkId Topology::add(std::string name, BytesPerSecond rate) {
    links_.push_back({std::move(name), rate});
    return LinkId{static_cast<std::uint32_t>(links_.size() - 1)};
}

// What the GPUs of a node share: PCIe switches, DRAM, NICs.
void Topology::add_shared(std::int64_t node, std::vector<Gpu>& of_node) {
    const Cluster& c = cluster_;
    const std::int64_t per_node = c.gpus_per_node, per_switch = std::max(c.gpu.parts, c.pcie.gpus_per_switch);
    for (std::int64_t s = 0; s * per_switch < per_node; ++s) {
        const LinkId out = add(fmt::format("node{}/switch{}/out", node, s), c.pcie.switch_d2h);
        const LinkId in = add(fmt::format("node{}/switch{}/in", node, s), c.pcie.switch_h2d);
        for (std::int64_t g = s * per_switch; g < std::min(per_node, (s + 1) * per_switch); ++g) {
            of_node[static_cast<std::size_t>(g)].switch_out = out;
            of_node[static_cast<std::size_t>(g)].switch_in = in;
        }
    }
    add_numa(node);
    for (std::int64_t device = 0; device * c.gpu.parts < per_node; ++device)
        add_pcie(node, device,
                 std::span(of_node).subspan(static_cast<std::size_t>(device * c.gpu.parts),
                                            static_cast<std::size_t>(c.gpu.parts)));
    std::vector<LinkId> nic_out, nic_in;
    for (std::int64_t n = 0; n < c.network.nics; ++n) {
        nic_out.push_back(add(fmt::format("node{}/nic{}/out", node, n), c.network.bandwidth));
        nic_in.push_back(add(fmt::format("node{}/nic{}/in", node, n), c.network.bandwidth));
    }
    for (std::int64_t g = 0; g < per_node; ++g) {
        Gpu& gpu = of_node[static_cast<std::size_t>(g)];
        const auto numa = static_cast<std::size_t>(c.numa_of(g));
        gpu.numa = static_cast<std::uint32_t>(static_cast<std::size_t>(node * c.host.numa_nodes) + numa);
        if (c.network.nics > 0) {
            const auto nic = static_cast<std::size_t>(adapter_of(g, c));
            gpu.nic_out = nic_out[nic];
            gpu.nic_in = nic_in[nic];
        }
    }
}

void Topology::add_numa(std::int64_t node) {
    const HostMemory& host = cluster_.host;
    for (std::int64_t m = 0; m < host.numa_nodes; ++m) {
        const std::string cross = fmt::format("node{}/cross{}", node, m);
        numa_.push_back({add(fmt::format("node{}/dram{}", node, m), host.bandwidth),
                         add(cross + "/out", host.cross_bandwidth), add(cross + "/in", host.cross_bandwidth)});
    }
}

// The link of a device, and what its parts share besides.
void Topology::add_pcie(std::int64_t node, std::int64_t device, std::span<Gpu> parts) {
    const Cluster& c = cluster_;
    const std::string name = fmt::format("node{}/gpu{}", node, device);
    Gpu shared{};
    shared.out = add(name + "/pcie/out", c.pcie.d2h);
    shared.in = add(name + "/pcie/in", c.pcie.h2d);
    shared.both = shared.out;
    if (duplex_binds_) shared.both = add(name + "/pcie/both", std::max({c.pcie.duplex, c.pcie.d2h, c.pcie.h2d}));
    // A copy in the memory reads every byte and writes it.
    if (c.gpu.parts > 1) shared.memory = add(name + "/memory", c.gpu.memory_bandwidth / 2);
    for (Gpu& part : parts)
        part.out = shared.out, part.in = shared.in, part.both = shared.both, part.memory = shared.memory;
}

// What only one GPU uses.
void Topology::add_own(std::int64_t node, std::int64_t local, Gpu& gpu) {
    const Cluster& c = cluster_;
    const std::string name = fmt::format("node{}/{}{}", node, c.gpu.parts > 1 ? "part" : "gpu", local);
    if (c.nvlink.bandwidth.value > 0) {
        gpu.nvlink_out = add(name + "/nvlink/out", c.nvlink.bandwidth);
        gpu.nvlink_in = add(name + "/nvlink/in", c.nvlink.bandwidth);
    }
    gpu.channel = add(name + "/channel", BytesPerSecond{1});
    gpu.rail = add(name + "/rail", BytesPerSecond{1});
}

std::int64_t Topology::node(Rank r) const { return static_cast<std::int64_t>(index(r)) / cluster_.gpus_per_node; }

Endpoint Topology::memory(Rank r) const {
    return Endpoint{static_cast<std::uint32_t>(2 * ranks_ + gpus_[index(r)].numa)};
}

Endpoint Topology::memory(Rank r, std::size_t numa) const {
    const auto of_node = static_cast<std::size_t>(cluster_.host.numa_nodes);
    SLUICE_CHECK(numa < of_node, "a NUMA node of the rank's node");
    return Endpoint{static_cast<std::uint32_t>(2 * ranks_ + static_cast<std::size_t>(node(r)) * of_node + numa)};
}

std::string Topology::name(Endpoint e) const {
    const auto i = static_cast<std::size_t>(e);
    if (i < ranks_) return fmt::format("gpu{}", i);
    if (i < 2 * ranks_) return fmt::format("channel{}", i - ranks_);
    return fmt::format("memory{}", i - 2 * ranks_);
}

LinkId Topology::cap_link(Rank from, Rank to) const {
    const Gpu& gpu = gpus_[index(from)];
    return same_node(from, to) ? gpu.channel : gpu.rail;
}

void Topology::push_out(Path& path, const Gpu& gpu) const {
    path.push_back(gpu.out);
    if (duplex_binds_) path.push_back(gpu.both);
}

void Topology::push_in(Path& path, const Gpu& gpu) const {
    if (duplex_binds_) path.push_back(gpu.both);
    path.push_back(gpu.in);
}

Path Topology::copy_out(Rank r, Endpoint to) const {
    const Gpu& gpu = gpus_[index(r)];
    Path path;
    push_out(path, gpu);
    path.push_back(gpu.switch_out);
    if (to != memory(r)) {
        path.push_back(numa(memory(r)).out);
        path.push_back(numa(to).in);
    }
    path.push_back(numa(to).dram);
    return path;
}

Path Topology::copy_in(Endpoint from, Rank r) const {
    const Gpu& gpu = gpus_[index(r)];
    Path path{numa(from).dram};
    if (from != memory(r)) {
        path.push_back(numa(from).out);
        path.push_back(numa(memory(r)).in);
    }
    path.push_back(gpu.switch_in);
    push_in(path, gpu);
    return path;
}

Path Topology::transfer(Rank from, Rank to) const {
    SLUICE_CHECK(from != to, "a rank sends to itself");
    const Gpu& source = gpus_[index(from)];
    const Gpu& target = gpus_[index(to)];
    Path path;
    if (!same_node(from, to)) {
        SLUICE_CHECK(cluster_.network.nics > 0, "ranks of different nodes meet on a cluster without a network");
        // GPU and NIC hang below the same PCIe switch, so the uplink of the switch is not crossed.
        if (cluster_.network.nic_shares_gpu_pcie) push_out(path, source);
        path.push_back(source.nic_out);
        path.push_back(target.nic_in);
        if (cluster_.network.nic_shares_gpu_pcie) push_in(path, target);
    } else if (cluster_.nvlink.bandwidth.value > 0) {
        path = {source.nvlink_out};
        if (cluster_.gpu.parts > 1) path.push_back(source.memory);
        path.push_back(target.nvlink_in);
    } else {
        push_out(path, source);
        if (source.switch_out != target.switch_out) {
            path.push_back(source.switch_out);
            path.push_back(target.switch_in);
        }
        push_in(path, target);
    }
    return path;
}

Seconds Topology::transfer_latency(Rank from, Rank to) const {
    if (!same_node(from, to)) return cluster_.network.latency;
    return cluster_.nvlink.bandwidth.value > 0 ? cluster_.nvlink.latency : cluster_.pcie.latency;
}

Path Topology::collective(Rank from, Rank to) const {
    Path path = transfer(from, to);
    path.insert(path.begin(), cap_link(from, to));
    return path;
}

}  // namespace sluice
