// Do the arenas fit? An arena ends where its highest buffer ends.
#include <fmt/format.h>

#include <algorithm>

#include "base/format_units.h"
#include "schedule/place_memory.h"
#include "schedule/verify_rules.h"

namespace sluice {
namespace {

struct Arena {
    Bytes end{};
    BufferId highest = kNoBuffer;
};

std::vector<Arena> arenas(const Schedule& schedule, Space space) {
    std::vector<Arena> result(schedule.ranks.size());
    for (const Buffer& buffer : schedule.buffers) {
        if (buffer.space != space || !buffer.offset) continue;
        Arena& arena = result[index(buffer.rank)];
        const Bytes end = *buffer.offset + buffer.bytes;
        if (end > arena.end) arena = {end, buffer.id};
    }
    return result;
}

// "most bytes live at op 7: weights 2.00 GiB, kv 1.00 GiB", largest first.
std::string kinds_at_peak(const LivePeak& peak) {
    std::vector<std::size_t> kinds;
    for (std::size_t k = 0; k < kBufferKinds; ++k)
        if (peak.by_kind[k] > Bytes{}) kinds.push_back(k);
    std::ranges::stable_sort(kinds, [&](std::size_t a, std::size_t b) { return peak.by_kind[a] > peak.by_kind[b]; });
    std::string text = peak.op == kNoOp ? "most bytes live:" : fmt::format("most bytes live at op {}:", index(peak.op));
    for (const std::size_t k : kinds)
        text += fmt::format("{} {} {}", k == kinds.front() ? "" : ",", name(static_cast<BufferKind>(k)),
                            format(peak.by_kind[k]));
    return text;
}

void check_devices(const Schedule& schedule, Diagnostics& found) {
    const std::vector<Arena> devices = arenas(schedule, Space::kDevice);
    std::vector<LivePeak> peaks;  // only asked for when something is wrong
    for (std::size_t r = 0; r < devices.size(); ++r) {
        const Bytes capacity = schedule.ranks[r].device_capacity;
        if (devices[r].end <= capacity) continue;
        if (peaks.empty()) peaks = live_peaks(schedule, Space::kDevice);
        report(found, Rule::kDeviceCapacity, peaks[r].op, devices[r].highest,
               fmt::format("rank {}: device buffers end at {} B ({}), expected at most its capacity of {} B ({}); {}",
                           r, devices[r].end.value, format(devices[r].end), capacity.value, format(capacity),
                           kinds_at_peak(peaks[r])));
    }
}

// Peaks of the ranks of one host add up: their arenas are allocated for the whole step.
LivePeak sum_of_peaks(const Schedule& schedule, const std::vector<LivePeak>& peaks, std::size_t host) {
    LivePeak sum;
    for (std::size_t r = 0; r < peaks.size(); ++r) {
        if (index(schedule.ranks[r].host) != host) continue;
        for (std::size_t k = 0; k < kBufferKinds; ++k) sum.by_kind[k] += peaks[r].by_kind[k];
    }
    return sum;
}

void check_hosts(const Schedule& schedule, Diagnostics& found) {
    const std::vector<Arena> pinned = arenas(schedule, Space::kHost);
    std::vector<Bytes> used(schedule.hosts.size());
    std::vector<Arena> largest(schedule.hosts.size());
    for (std::size_t r = 0; r < pinned.size(); ++r) {
        const std::size_t host = index(schedule.ranks[r].host);
        used[host] = Bytes{std::min(used[host].value + pinned[r].end.value, std::int64_t{1} << 62)};  // cannot overflow
        if (pinned[r].end > largest[host].end) largest[host] = pinned[r];
    }
    std::vector<LivePeak> peaks;
    for (std::size_t h = 0; h < used.size(); ++h) {
        const Bytes capacity = schedule.hosts[h].capacity;
        if (used[h] <= capacity) continue;
        if (peaks.empty()) peaks = live_peaks(schedule, Space::kHost);
        report(
            found, Rule::kHostCapacity, kNoOp, largest[h].highest,
            fmt::format(
                "host {}: pinned buffers of its ranks take {} B ({}), expected at most its capacity of {} B ({}); {}",
                h, used[h].value, format(used[h]), capacity.value, format(capacity),
                kinds_at_peak(sum_of_peaks(schedule, peaks, h))));
    }
}

}  // namespace

void check_capacities(const Schedule& schedule, Diagnostics& found) {
    check_devices(schedule, found);
    check_hosts(schedule, found);
}

}  // namespace sluice
