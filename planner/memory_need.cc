#include "planner/memory_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "models/device_memory.h"
#include "models/pinned_memory.h"

namespace sluice {
namespace {

std::string ranks_text(const MemoryNeed& need) {
    return need.first_rank == need.last_rank ? fmt::format("rank {}", need.first_rank)
                                             : fmt::format("ranks {}-{}", need.first_rank, need.last_rank);
}

// Of a stage's GPUs: who, and what is usable; nothing needed yet.
MemoryNeed device_need(const Scenario& s, std::size_t stage, Bytes pinned) {
    MemoryNeed need;
    need.place = stage;
    need.first_rank = static_cast<std::int64_t>(stage) * s.ranks_of_stage();
    need.last_rank = need.first_rank + s.ranks_of_stage() - 1;
    need.usable = usable_device_memory(s, pinned);
    return need;
}

MemoryNeed host_need(std::size_t node, std::int64_t first_rank, std::int64_t ranks, Bytes needed, Bytes usable) {
    MemoryNeed need;
    need.space = Space::kHost;
    need.place = node;
    need.first_rank = first_rank, need.last_rank = first_rank + ranks - 1;
    need.needed = needed, need.usable = usable;
    need.by_kind[static_cast<std::size_t>(BufferKind::kStaging)] = needed;  // offloaded activations, nothing else
    return need;
}

// One of the node, or one per NUMA node where each rank has to use its own: as host_shortages() checks them.
void add_host_needs(const Cluster& c, std::size_t node, const PinnedMemory& pinned, std::int64_t ranks,
                    std::vector<MemoryNeed>& needs) {
    const std::vector<Bytes>& used = pinned.by_node[node];
    const std::int64_t first = static_cast<std::int64_t>(node) * c.gpus_per_node;
    const std::int64_t here = std::min(c.gpus_per_node, ranks - first);
    if (c.host.numa != NumaPlacement::kLocal || used.size() == 1) {
        needs.push_back(
            host_need(node, first, here, std::accumulate(used.begin(), used.end(), Bytes{}), c.host.usable()));
        return;
    }
    const std::int64_t per_numa = c.gpus_per_node / c.host.numa_nodes;
    for (std::int64_t m = 0; m * per_numa < here; ++m) {
        needs.push_back(host_need(node, first + m * per_numa, std::min(per_numa, here - m * per_numa),
                                  used[static_cast<std::size_t>(m)], c.host.usable_per_numa()));
        needs.back().numa = m;
    }
}

}  // namespace

std::string MemoryNeed::where() const {
    return space == Space::kDevice ? fmt::format("GPU memory of {} (stage {})", ranks_text(*this), place)
                                   : fmt::format("host memory of node {}{} ({})", place,
                                                 numa ? fmt::format(", NUMA node {}", *numa) : "", ranks_text(*this));
}

std::vector<MemoryNeed> memory_needs(const Scenario& s, std::span<const ArenaUse> device,
                                     std::span<const Bytes> pinned) {
    std::vector<MemoryNeed> needs;
    for (std::size_t stage = 0; stage < device.size(); ++stage) {
        needs.push_back(device_need(s, stage, pinned[stage]));
        needs.back().needed = device[stage].arena;
        needs.back().by_kind = device[stage].live.by_kind;
    }
    std::vector<Bytes> by_rank;
    for (const Bytes of_stage : pinned)
        by_rank.insert(by_rank.end(), static_cast<std::size_t>(s.ranks_of_stage()), of_stage);
    const PinnedMemory placed = place_pinned(by_rank, s.cluster);
    const auto ranks = static_cast<std::int64_t>(by_rank.size());
    for (std::size_t node = 0; node < placed.by_node.size(); ++node)
        add_host_needs(s.cluster, node, placed, ranks, needs);
    return needs;
}

const MemoryNeed* worst_need(const std::vector<MemoryNeed>& needs) {
    const auto share = [](const MemoryNeed& need) { return need.excess() / std::max(need.usable, 1_B); };
    const auto worst = std::max_element(needs.begin(), needs.end(),
                                        [&](const MemoryNeed& a, const MemoryNeed& b) { return share(a) < share(b); });
    return worst == needs.end() || worst->excess() == 0_B ? nullptr : &*worst;
}

std::optional<BufferKind> largest_kind(const MemoryNeed& need, const MemoryNeed* before) {
    std::optional<BufferKind> kind;
    Bytes most{};
    for (std::size_t k = 0; k < kBufferKinds; ++k) {
        const Bytes bytes = need.by_kind[k] - (before != nullptr ? before->by_kind[k] : Bytes{});
        if (bytes > most) most = bytes, kind = static_cast<BufferKind>(k);
    }
    return kind;
}

}  // namespace sluice
