#include <algorithm>

#include "schedule/buffer_lives.h"
#include "schedule/place_memory.h"

namespace sluice {
namespace {

using ByKind = std::array<Bytes, kBufferKinds>;

// At a position of a rank: bytes of one kind that start (or, negative, stop) to live.
struct Change {
    std::uint32_t position;
    BufferKind kind;
    Bytes bytes;
};

// Walks the changes of one rank in order; what a position starts and stops counts before it is looked at.
LivePeak peak_of(std::vector<Change> changes, const std::vector<OpId>& ops) {
    std::ranges::stable_sort(changes, {}, &Change::position);
    LivePeak peak;
    ByKind live{};
    Bytes total{};
    for (std::size_t i = 0; i < changes.size();) {
        const std::uint32_t position = changes[i].position;
        for (; i < changes.size() && changes[i].position == position; ++i) {
            live[static_cast<std::size_t>(changes[i].kind)] += changes[i].bytes;
            total += changes[i].bytes;
        }
        if (total <= peak.bytes) continue;
        peak = {position < ops.size() ? ops[position] : kNoOp, total, live};
    }
    return peak;
}

}  // namespace

std::vector<LivePeak> live_peaks(const Schedule& schedule, Space space) {
    const std::vector<Life> lives = buffer_lives(schedule);
    const std::vector<std::vector<OpId>> ops = ops_by_rank(schedule);
    std::vector<std::vector<Change>> changes(schedule.ranks.size());
    for (const Buffer& buffer : schedule.buffers) {
        const Life& life = lives[index(buffer.id)];
        if (buffer.space != space || life.never()) continue;
        const Bytes bytes = round_up(buffer.bytes, kPlacementAlignment);
        changes[index(buffer.rank)].push_back({life.first, buffer.kind, bytes});
        changes[index(buffer.rank)].push_back({life.last + 1, buffer.kind, -bytes});
    }
    std::vector<LivePeak> peaks;
    for (std::size_t r = 0; r < ops.size(); ++r) peaks.push_back(peak_of(std::move(changes[r]), ops[r]));
    return peaks;
}

}  // namespace sluice
