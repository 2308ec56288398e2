#include "planner/capacity_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/format_units.h"
#include "models/device_memory.h"
#include "models/pinned_memory.h"

namespace sluice {
namespace {

std::string ranks_of_stage(const Scenario& s, std::size_t stage) {
    const auto count = static_cast<std::size_t>(s.ranks_of_stage());
    return count == 1 ? fmt::format("rank {} (stage {})", stage, stage)
                      : fmt::format("ranks {}-{} (stage {})", stage * count, stage * count + count - 1, stage);
}

std::string describe(const Op& op) {
    std::string text = fmt::format("op {} ({} {}", index(op.id), name(op.tag.phase), name(op.lane.kind));
    if (op.tag.layer >= 0) text += fmt::format(", layer {}", op.tag.layer);
    if (op.tag.subsequence >= 0) text += fmt::format(", subsequence {}", op.tag.subsequence);
    return text + ")";
}

// "activation 40.1 GiB, kv 16.0 GiB": largest first.
std::string kinds(const LivePeak& peak) {
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < kBufferKinds; ++k)
        if (peak.by_kind[k].value > 0) order.push_back(k);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return peak.by_kind[a] > peak.by_kind[b]; });
    std::string text;
    for (const std::size_t k : order)
        text +=
            fmt::format("{}{} {}", text.empty() ? "" : ", ", name(static_cast<BufferKind>(k)), format(peak.by_kind[k]));
    return text;
}

void report_devices(const Scenario& s, const Schedule& folded, const Placement& placement,
                    const std::vector<Bytes>& pinned, std::vector<std::string>& report) {
    for (std::size_t stage = 0; stage < placement.device.size(); ++stage) {
        const ArenaUse& use = placement.device[stage];
        const Bytes usable = usable_device_memory(s, pinned[stage]);
        if (use.arena <= usable || use.live.op == kNoOp) continue;
        const Op& op = folded.ops[index(use.live.op)];
        report.push_back(
            fmt::format("{}: {} of GPU memory needed, {} usable; most live at {}: {}{}", ranks_of_stage(s, stage),
                        format(use.arena), format(usable), describe(op), kinds(use.live),
                        use.arena == use.live.bytes
                            ? ""
                            : fmt::format("; {} unusable between them", format(use.arena - use.live.bytes))));
    }
}

void report_hosts(const Scenario& s, const std::vector<Bytes>& pinned, std::vector<std::string>& report) {
    const auto ranks = static_cast<std::size_t>(s.ranks_of_stage());
    std::vector<Bytes> by_rank;
    for (const Bytes of_stage : pinned)
        by_rank.insert(by_rank.end(), ranks, of_stage);
    for (std::string& line : host_shortages(place_pinned(by_rank, s.cluster), s.cluster))
        report.push_back(std::move(line));
}

}  // namespace

std::vector<std::string> capacity_report(const Scenario& scenario, const Schedule& folded, const Placement& placement) {
    std::vector<std::string> report;
    const std::vector<Bytes> pinned = pinned_bytes(folded, scenario.cluster.host.allocator);
    report_devices(scenario, folded, placement, pinned, report);
    report_hosts(scenario, pinned, report);
    return report;
}

}  // namespace sluice
