#include "schedule/place_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "schedule/buffer_lives.h"
#include "schedule/pack_arena.h"
#include "schedule/reuse_edges.h"

namespace sluice {
namespace {

// The buffers of one arena that live at all.
struct Tenants {
    std::vector<BufferId> buffers;
    std::vector<PackItem> items;
};

std::vector<Tenants> tenants_by_rank(const Schedule& schedule, Space space, const std::vector<Life>& lives) {
    std::vector<Tenants> result(schedule.ranks.size());
    for (const Buffer& buffer : schedule.buffers) {
        const Life& life = lives[index(buffer.id)];
        if (buffer.space != space || life.never()) continue;
        Tenants& tenants = result[index(buffer.rank)];
        tenants.buffers.push_back(buffer.id);
        tenants.items.push_back({life.first, life.last, round_up(buffer.bytes, kPlacementAlignment)});
    }
    return result;
}

// Ranks of one tensor-parallel group hold the same sizes for the same lives: each distinct arena is packed once.
void place_space(Schedule& schedule, Space space, const std::vector<Life>& lives) {
    std::map<std::vector<PackItem>, std::vector<Bytes>> solved;
    for (Tenants& tenants : tenants_by_rank(schedule, space, lives)) {
        const auto [found, fresh] = solved.try_emplace(std::move(tenants.items));
        if (fresh) found->second = pack_arena(found->first).offsets;
        for (std::size_t i = 0; i < tenants.buffers.size(); ++i)
            schedule.buffers[index(tenants.buffers[i])].offset = found->second[i];
    }
}

std::vector<ArenaUse> arena_uses(const Schedule& schedule, Space space) {
    std::vector<ArenaUse> result;
    for (LivePeak& peak : live_peaks(schedule, space)) result.push_back({{}, peak});
    for (const Buffer& buffer : schedule.buffers) {
        if (buffer.space != space) continue;
        Bytes& arena = result[index(buffer.rank)].arena;
        arena = std::max(arena, *buffer.offset + round_up(buffer.bytes, kPlacementAlignment));
    }
    return result;
}

}  // namespace

Placement place_memory(Schedule& schedule) {
    for (Buffer& buffer : schedule.buffers) {
        SLUICE_CHECK(!buffer.offset, "memory placement needs buffers without offsets");
        buffer.offset = Bytes{};  // where buffers stay that nobody uses
    }
    const std::vector<Life> lives = buffer_lives(schedule);
    place_space(schedule, Space::kDevice, lives);
    place_space(schedule, Space::kHost, lives);
    add_reuse_edges(schedule);
    return {arena_uses(schedule, Space::kDevice), arena_uses(schedule, Space::kHost)};
}

}  // namespace sluice
