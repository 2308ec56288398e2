#include "scenarios/read_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/format_units.h"
#include "scenarios/quote.h"
#include "scenarios/sourced_block.h"

namespace sluice {
namespace {

constexpr std::int64_t kMostNodes = 65536;
constexpr std::int64_t kMostGpusPerNode = 64;

constexpr std::string_view kKeys[] = {"name", "nodes", "gpus_per_node", "sources", "gpu",
                                      "pcie", "host",  "nvlink",        "network"};
constexpr std::string_view kGpuKeys[] = {"name",   "memory", "reserved",         "reserved_per_token", "reserved_per_pinned_gib",
                                         "margin", "peak",   "memory_bandwidth", "parts"};
// A step has up to 2^30 tokens. Page tables are far below a sixteenth of what they map.
constexpr Limits<Bytes> kPerTokenLimits{Bytes{0}, 1_KiB, "0 B ... 1 KiB"};
constexpr Limits<Bytes> kPerPinnedGibLimits{Bytes{0}, 64_MiB, "0 B ... 64 MiB"};
constexpr std::string_view kPcieKeys[] = {"d2h",        "h2d",       "duplex", "latency", "gpus_per_switch",
                                          "switch_d2h", "switch_h2d"};
constexpr std::string_view kHostKeys[] = {"memory", "reserved",        "numa_nodes", "bandwidth",
                                          "numa",   "cross_bandwidth", "allocator",  "pin_rate"};
constexpr std::string_view kNvlinkKeys[] = {"bandwidth", "latency"};
constexpr std::string_view kNetworkKeys[] = {"nics", "bandwidth", "latency", "nic_shares_gpu_pcie"};
constexpr std::string_view kOverrideKeys[] = {"use",         "nodes",     "gpus_per_node",  "gpu_memory",
                                              "host_memory", "host_numa", "host_allocator", "host_cross_bandwidth"};
constexpr Choice<NumaPlacement> kNumaPlacements[] = {
    {"local", NumaPlacement::kLocal}, {"interleave", NumaPlacement::kInterleave}, {"first", NumaPlacement::kFirst}};
constexpr Choice<HostAllocator> kAllocators[] = {{"exact", HostAllocator::kExact},
                                                 {"power_of_two", HostAllocator::kPowerOfTwo}};

Bytes read_reserved(const SourcedBlock& block, Bytes memory) {
    const auto field = find_number(block, "reserved");
    if (!field) return Bytes{0};
    const Bytes reserved = read_bytes(*field, kReservedLimits);
    if (reserved >= memory)
        fail(*field, fmt::format("got {}, expected less than memory, {}", quote(read_text(*field)), format(memory)));
    return reserved;
}

// What is taken off the GPU's memory besides `reserved`; none where the file does not say.
Bytes bytes_or_none(const SourcedBlock& block, std::string_view key, Limits<Bytes> limits) {
    const auto field = find_number(block, key);
    return field ? read_bytes(*field, limits) : Bytes{};
}

Bytes read_margin(const SourcedBlock& block, Bytes unreserved) {
    const auto field = find_number(block, "margin");
    if (!field) return Bytes{};
    const Bytes margin = read_bytes(*field, kReservedLimits);
    if (margin >= unreserved)
        fail(*field, fmt::format("got {}, expected less than memory without what is reserved, {}",
                                 quote(read_text(*field)), format(unreserved)));
    return margin;
}

std::int64_t count_or_one(const SourcedBlock& block, std::string_view key) {
    const auto field = find_number(block, key);
    return field ? read_count(*field, kMostGpusPerNode) : 1;
}

BytesPerSecond rate_or(const SourcedBlock& block, std::string_view key, BytesPerSecond otherwise) {
    const auto field = find_number(block, key);
    return field ? read_bytes_per_second(*field) : otherwise;
}

Gpu read_gpu(const SourcedBlock& block) {
    Gpu gpu;
    gpu.name = read_line(get(block.field, "name"));
    gpu.memory = read_bytes(get_number(block, "memory"), kMemoryLimits);
    gpu.reserved = read_reserved(block, gpu.memory);
    gpu.reserved_per_token = bytes_or_none(block, "reserved_per_token", kPerTokenLimits);
    gpu.reserved_per_pinned_gib = bytes_or_none(block, "reserved_per_pinned_gib", kPerPinnedGibLimits);
    gpu.margin = read_margin(block, gpu.memory - gpu.reserved);
    gpu.peak = read_flops_per_second(get_number(block, "peak"));
    gpu.memory_bandwidth = read_bytes_per_second(get_number(block, "memory_bandwidth"));
    gpu.parts = count_or_one(block, "parts");
    return gpu;
}

BytesPerSecond read_duplex(const SourcedBlock& block, BytesPerSecond both) {
    const auto field = find_number(block, "duplex");
    if (!field) return both;
    const BytesPerSecond duplex = read_bytes_per_second(*field);
    // A rounding of the sum must not refuse a file that gives exactly the sum.
    if (duplex.value > both.value * (1 + 1e-12))
        fail(*field, fmt::format("got {}, expected at most d2h + h2d, {}", quote(read_text(*field)), format(both)));
    return duplex;
}

Pcie read_pcie(const SourcedBlock& block) {
    Pcie pcie;
    pcie.d2h = read_bytes_per_second(get_number(block, "d2h"));
    pcie.h2d = read_bytes_per_second(get_number(block, "h2d"));
    pcie.duplex = read_duplex(block, pcie.d2h + pcie.h2d);
    pcie.latency = read_seconds(get_number(block, "latency"));
    pcie.gpus_per_switch = count_or_one(block, "gpus_per_switch");
    if (pcie.gpus_per_switch > 1) {
        pcie.switch_d2h = read_bytes_per_second(get_number(block, "switch_d2h"));
        pcie.switch_h2d = read_bytes_per_second(get_number(block, "switch_h2d"));
    } else {
        pcie.switch_d2h = rate_or(block, "switch_d2h", pcie.d2h);
        pcie.switch_h2d = rate_or(block, "switch_h2d", pcie.h2d);
    }
    return pcie;
}

HostMemory read_host(const SourcedBlock& block) {
    HostMemory host;
    host.memory = read_bytes(get_number(block, "memory"), kMemoryLimits);
    host.reserved = read_reserved(block, host.memory);
    host.numa_nodes = count_or_one(block, "numa_nodes");
    host.bandwidth = read_bytes_per_second(get_number(block, "bandwidth"));
    if (const auto numa = find_number(block, "numa")) host.numa = read_choice(*numa, kNumaPlacements);
    host.cross_bandwidth = rate_or(block, "cross_bandwidth", {});
    if (const auto allocator = find_number(block, "allocator")) host.allocator = read_choice(*allocator, kAllocators);
    host.pin_rate = rate_or(block, "pin_rate", {});
    return host;
}

Nvlink read_nvlink(const SourcedBlock& block) {
    return {read_bytes_per_second(get_number(block, "bandwidth")), read_seconds(get_number(block, "latency"))};
}

Network read_network(const SourcedBlock& block) {
    Network network;
    network.nics = read_count(get_number(block, "nics"), kMostGpusPerNode);
    network.bandwidth = read_bytes_per_second(get_number(block, "bandwidth"));
    network.latency = read_seconds(get_number(block, "latency"));
    if (const auto field = find_number(block, "nic_shares_gpu_pcie")) network.nic_shares_gpu_pcie = read_bool(*field);
    return network;
}

// The field at block.key for a message, or the nearest thing around it that the file has. (An override lacks the
// blocks.)
YamlField locate(const YamlField& root, std::string_view block, std::string_view key) {
    const auto around = find(root, block);
    if (!around) return root;
    const auto field = find(*around, key);
    return field ? *field : *around;
}

// host.KEY of a cluster file, or the override host_KEY.
YamlField locate_host(const YamlField& root, std::string_view key) {
    const auto override_field = find(root, fmt::format("host_{}", key));
    return override_field ? *override_field : locate(root, "host", key);
}

void expect_consistent_parts(const Cluster& c, const YamlField& root) {
    if (c.gpu.parts == 1) return;
    if (c.gpus_per_node != c.gpu.parts)
        fail(locate(root, "gpu", "parts"),
             fmt::format("got {} parts of a GPU and gpus_per_node {}, expected the same: nodes whose one GPU is parted",
                         c.gpu.parts, c.gpus_per_node));
    if (c.nvlink.bandwidth.value == 0)
        fail(root, "parts of a GPU copy to each other in its memory, expected a key \"nvlink\" with the rate of that");
}

// What concerns several numbers at once.
void expect_consistent(const Cluster& c, const YamlField& root) {
    expect_consistent_parts(c, root);
    if (c.gpus_per_node % c.host.numa_nodes != 0)
        fail(locate(root, "host", "numa_nodes"),
             fmt::format("{} NUMA nodes do not divide gpus_per_node {}, expected a divisor", c.host.numa_nodes,
                         c.gpus_per_node));
    const std::int64_t gpus_per_numa = c.gpus_per_node / c.host.numa_nodes;
    if (gpus_per_numa % c.pcie.gpus_per_switch != 0)
        fail(locate(root, "pcie", "gpus_per_switch"),
             fmt::format("{} GPUs per switch do not divide the {} GPUs of a NUMA node, expected a divisor",
                         c.pcie.gpus_per_switch, gpus_per_numa));
    if (c.host.numa != NumaPlacement::kLocal && c.host.numa_nodes > 1 && c.host.cross_bandwidth.value == 0)
        fail(locate_host(root, "numa"),
             fmt::format("copies to the memory of other NUMA nodes need the rate between them, expected a key \"{}\"",
                         find(root, "use") ? "host_cross_bandwidth" : "cross_bandwidth"));
    // Where a job takes part of a node, its GPUs may each have several adapters to choose from; they use the first.
    const bool several = c.spare_gpus > 0 && c.network.nics % c.gpus_per_node == 0;
    if (c.network.nics > 0 && c.gpus_per_node % c.network.nics != 0 && !several)
        fail(locate(root, "network", "nics"), fmt::format("{} NICs do not divide gpus_per_node {}, expected a divisor",
                                                          c.network.nics, c.gpus_per_node));
    if (c.nodes > 1 && c.network.nics == 0)
        fail(root, fmt::format("{} nodes without a network, expected a key \"network\" or nodes: 1", c.nodes));
}

}  // namespace

Cluster read_cluster(const YamlField& root, std::string_view name) {
    SourceList sources = read_sources(root);
    const SourcedBlock top = open_block(root, sources, kKeys);
    const auto block = [&](std::string_view key, std::span<const std::string_view> keys) {
        return open_block(get(root, key), sources, keys);
    };
    Cluster cluster;
    const auto own_name = find(root, "name");
    cluster.name = own_name ? read_name(*own_name) : std::string(name);
    cluster.nodes = read_count(get_number(top, "nodes"), kMostNodes);
    cluster.gpus_per_node = read_count(get_number(top, "gpus_per_node"), kMostGpusPerNode);
    cluster.gpu = read_gpu(block("gpu", kGpuKeys));
    cluster.pcie = read_pcie(block("pcie", kPcieKeys));
    cluster.host = read_host(block("host", kHostKeys));
    if (find(root, "nvlink")) cluster.nvlink = read_nvlink(block("nvlink", kNvlinkKeys));
    if (find(root, "network")) cluster.network = read_network(block("network", kNetworkKeys));
    expect_all_used(sources);
    expect_consistent(cluster, root);
    return cluster;
}

void override_cluster(Cluster& cluster, const YamlField& overrides) {
    expect_keys(overrides, kOverrideKeys);
    if (const auto field = find(overrides, "nodes")) cluster.nodes = read_count(*field, kMostNodes);
    if (const auto field = find(overrides, "gpus_per_node")) {
        const std::int64_t of_node = cluster.gpus_per_node;
        cluster.gpus_per_node = read_count(*field, kMostGpusPerNode);
        cluster.spare_gpus = std::max(std::int64_t{0}, of_node - cluster.gpus_per_node);
    }
    const auto memory = [&](std::string_view key, Bytes reserved, Bytes& target) {
        const auto field = find(overrides, key);
        if (!field) return;
        target = read_bytes(*field, kMemoryLimits);
        if (reserved >= target)
            fail(*field, fmt::format("got {}, expected more than the {} that cluster {} reserves",
                                     quote(read_text(*field)), format(reserved), cluster.name));
    };
    memory("gpu_memory", cluster.gpu.reserved + cluster.gpu.margin, cluster.gpu.memory);
    memory("host_memory", cluster.host.reserved, cluster.host.memory);
    if (const auto field = find(overrides, "host_numa")) cluster.host.numa = read_choice(*field, kNumaPlacements);
    if (const auto field = find(overrides, "host_allocator")) cluster.host.allocator = read_choice(*field, kAllocators);
    if (const auto field = find(overrides, "host_cross_bandwidth"))
        cluster.host.cross_bandwidth = read_bytes_per_second(*field);
    expect_consistent(cluster, overrides);
}

}  // namespace sluice
