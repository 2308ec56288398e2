#include "scenarios/write_cluster.h"

#include <fmt/format.h>

#include <ostream>

#include "scenarios/yaml_text.h"

namespace sluice {
namespace {

std::string_view name(NumaPlacement placement) {
    switch (placement) {
        case NumaPlacement::kLocal:
            return "local";
        case NumaPlacement::kInterleave:
            return "interleave";
        case NumaPlacement::kFirst:
            return "first";
    }
    return "?";
}

std::string gpu(const Gpu& g) {
    std::string text = fmt::format("name: {}, memory: {}, reserved: {}", yaml_text(g.name), yaml_quantity(g.memory),
                                   yaml_quantity(g.reserved));
    const auto besides = [&](std::string_view key, Bytes bytes) {
        if (bytes.value > 0) text += fmt::format(", {}: {}", key, yaml_quantity(bytes));
    };
    besides("reserved_per_token", g.reserved_per_token);
    besides("reserved_per_pinned_gib", g.reserved_per_pinned_gib);
    besides("margin", g.margin);
    text += fmt::format(", peak: {}, memory_bandwidth: {}", yaml_quantity(g.peak), yaml_quantity(g.memory_bandwidth));
    return text + (g.parts > 1 ? fmt::format(", parts: {}", g.parts) : "");
}

// The reader refuses a duplex rate above the sum of the two directions, which rounding must not bring about.
std::string pcie(const Pcie& p) {
    std::string text = fmt::format("d2h: {}, h2d: {}", yaml_quantity(p.d2h), yaml_quantity(p.h2d));
    if (p.duplex.value < 0.999 * (p.d2h + p.h2d).value) text += fmt::format(", duplex: {}", yaml_quantity(p.duplex));
    text += fmt::format(", latency: {}", yaml_quantity(p.latency));
    if (p.gpus_per_switch > 1)
        text += fmt::format(", gpus_per_switch: {}, switch_d2h: {}, switch_h2d: {}", p.gpus_per_switch,
                            yaml_quantity(p.switch_d2h), yaml_quantity(p.switch_h2d));
    return text;
}

std::string host(const HostMemory& h) {
    std::string text = fmt::format("memory: {}, reserved: {}, numa_nodes: {}, bandwidth: {}", yaml_quantity(h.memory),
                                   yaml_quantity(h.reserved), h.numa_nodes, yaml_quantity(h.bandwidth));
    if (h.numa != NumaPlacement::kLocal) text += fmt::format(", numa: {}", name(h.numa));
    if (h.cross_bandwidth.value > 0) text += fmt::format(", cross_bandwidth: {}", yaml_quantity(h.cross_bandwidth));
    if (h.allocator == HostAllocator::kPowerOfTwo) text += ", allocator: power_of_two";
    if (h.pin_rate.value > 0) text += fmt::format(", pin_rate: {}", yaml_quantity(h.pin_rate));
    return text;
}

std::string network(const Network& n) {
    return fmt::format("nics: {}, bandwidth: {}, latency: {}, nic_shares_gpu_pcie: {}", n.nics,
                       yaml_quantity(n.bandwidth), yaml_quantity(n.latency), n.nic_shares_gpu_pcie);
}

}  // namespace

void write_cluster(std::ostream& out, const Cluster& c, const FileOrigin& origin) {
    const auto block = [&](std::string_view key, const std::string& numbers) {
        out << fmt::format("{}: {{{}, {}}}\n", key, numbers, origin_text(origin, key, ", "));
    };
    out << file_head(c.name, origin);
    out << fmt::format("nodes: {}\ngpus_per_node: {}\n{}\n", c.nodes, c.gpus_per_node, origin_text(origin, "", "\n"));
    block("gpu", gpu(c.gpu));
    block("pcie", pcie(c.pcie));
    block("host", host(c.host));
    if (c.nvlink.bandwidth.value > 0)
        block("nvlink", fmt::format("bandwidth: {}, latency: {}", yaml_quantity(c.nvlink.bandwidth),
                                    yaml_quantity(c.nvlink.latency)));
    if (c.network.nics > 0) block("network", network(c.network));
}

}  // namespace sluice
