#include "models/pinned_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/format_units.h"
#include "schedule/pinned_bytes.h"

namespace sluice {
namespace {

Bytes sum(const std::vector<Bytes>& bytes) { return std::accumulate(bytes.begin(), bytes.end(), Bytes{}); }

std::vector<Bytes> interleaved(Bytes bytes, std::int64_t nodes) {
    std::vector<Bytes> parts(static_cast<std::size_t>(nodes), bytes / nodes);
    for (std::int64_t m = 0; m < bytes.value % nodes; ++m) ++parts[static_cast<std::size_t>(m)].value;
    return parts;
}

// From the first NUMA node on, beside what is used there.
std::vector<Bytes> filled(Bytes bytes, const std::vector<Bytes>& used, Bytes usable) {
    std::vector<Bytes> parts(used.size());
    for (std::size_t m = 0; m < used.size(); ++m) {
        const bool last = m + 1 == used.size();
        parts[m] = last ? bytes : std::min(bytes, std::max(Bytes{}, usable - used[m]));
        bytes -= parts[m];
    }
    return parts;
}

std::string ranks_text(std::size_t first, std::size_t last) {
    return first == last ? fmt::format("rank {}", first) : fmt::format("ranks {}-{}", first, last);
}

std::string rounding_note(const Cluster& c) {
    return c.host.allocator == HostAllocator::kPowerOfTwo ? "; blocks are rounded up to powers of two" : "";
}

void report_numa_nodes(std::size_t node, const std::vector<Bytes>& used, std::size_t ranks, const Cluster& c,
                       std::vector<std::string>& lines) {
    const auto per_node = static_cast<std::size_t>(c.gpus_per_node);
    const std::size_t per_numa = per_node / used.size();
    const Bytes usable = c.host.usable_per_numa();
    for (std::size_t m = 0; m < used.size(); ++m) {
        if (used[m] <= usable) continue;
        const std::size_t first = node * per_node + m * per_numa;
        lines.push_back(fmt::format(
            "node {}, NUMA node {}: {} of host memory needed for the offloaded activations of {}, {} usable{}{}", node,
            m, format(used[m]), ranks_text(first, std::min(first + per_numa, ranks) - 1), format(usable),
            rounding_note(c),
            sum(used) <= c.host.usable() ? "; the node as a whole has room, which host.numa interleave would use"
                                         : ""));
    }
}

}  // namespace

std::vector<Bytes> pinned_bytes(const Schedule& schedule, HostAllocator allocator) {
    return allocator == HostAllocator::kExact ? arena_bytes(schedule) : power_of_two_bytes(schedule);
}

std::size_t PinnedMemory::largest_node() const {
    SLUICE_CHECK(!by_node.empty(), "a cluster has a node");
    const auto largest =
        std::max_element(by_node.begin(), by_node.end(), [](const auto& a, const auto& b) { return sum(a) < sum(b); });
    return static_cast<std::size_t>(largest - by_node.begin());
}

PinnedMemory place_pinned(std::span<const Bytes> by_rank, const Cluster& c) {
    SLUICE_CHECK(static_cast<std::int64_t>(by_rank.size()) <= c.gpus(), "a rank per GPU at most");
    const auto per_node = static_cast<std::size_t>(c.gpus_per_node);
    const auto numa_nodes = static_cast<std::size_t>(c.host.numa_nodes);
    PinnedMemory result;
    for (std::size_t r = 0; r < by_rank.size(); ++r) {
        if (r % per_node == 0) result.by_node.emplace_back(numa_nodes);
        std::vector<Bytes>& used = result.by_node.back();
        std::vector<Bytes> parts(numa_nodes);
        switch (c.host.numa) {
            case NumaPlacement::kLocal:
                parts[static_cast<std::size_t>(c.numa_of(static_cast<std::int64_t>(r % per_node)))] = by_rank[r];
                break;
            case NumaPlacement::kInterleave:
                parts = interleaved(by_rank[r], c.host.numa_nodes);
                break;
            case NumaPlacement::kFirst:
                parts = filled(by_rank[r], used, c.host.usable_per_numa());
                break;
        }
        for (std::size_t m = 0; m < numa_nodes; ++m) used[m] += parts[m];
        result.by_rank.push_back(std::move(parts));
    }
    return result;
}

std::vector<std::string> host_shortages(const PinnedMemory& pinned, const Cluster& c) {
    const auto per_node = static_cast<std::size_t>(c.gpus_per_node);
    const std::size_t ranks = pinned.by_rank.size();
    std::vector<std::string> lines;
    for (std::size_t node = 0; node < pinned.by_node.size(); ++node) {
        const std::vector<Bytes>& used = pinned.by_node[node];
        if (c.host.numa == NumaPlacement::kLocal && used.size() > 1) {
            report_numa_nodes(node, used, ranks, c, lines);
        } else if (sum(used) > c.host.usable()) {
            const std::size_t first = node * per_node;
            lines.push_back(
                fmt::format("node {}: {} of host memory needed for the offloaded activations of {}, {} usable{}", node,
                            format(sum(used)), ranks_text(first, std::min(first + per_node, ranks) - 1),
                            format(c.host.usable()), rounding_note(c)));
        }
    }
    return lines;
}

std::optional<Seconds> pin_time(const PinnedMemory& pinned, const Cluster& c) {
    if (c.host.pin_rate.value == 0) return std::nullopt;
    Bytes most{};
    for (const std::vector<Bytes>& used : pinned.by_node) most = std::max(most, *std::ranges::max_element(used));
    return most / c.host.pin_rate;
}

}  // namespace sluice
