#include "runtime/rank_arenas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/format_units.h"
#include "schedule/describe.h"

namespace sluice {
namespace {

struct ArenaSizes {
    std::array<Bytes, 2> of_space{};  // by Space
    Bytes& operator[](Space space) { return of_space[static_cast<std::size_t>(space)]; }
};

ArenaSizes arena_sizes(const Schedule& schedule, Rank rank) {
    ArenaSizes sizes;
    for (const Buffer& buffer : schedule.buffers) {
        if (buffer.rank != rank) continue;
        if (!buffer.offset)
            throw InputError(
                fmt::format("{} has no place in its arena: place the schedule's memory first", describe(buffer)));
        sizes[buffer.space] = std::max(sizes[buffer.space], *buffer.offset + buffer.bytes);
    }
    return sizes;
}

}  // namespace

Bytes arena_bytes(const Schedule& schedule, Rank rank, Space space) { return arena_sizes(schedule, rank)[space]; }

RankArenas::RankArenas(const Schedule& schedule, Rank rank) : schedule_(schedule), rank_(rank) {
    ArenaSizes sizes = arena_sizes(schedule, rank);
    device_ = Arena(sizes[Space::kDevice], fmt::format("device arena of rank {}", index(rank)));
    host_ = Arena(sizes[Space::kHost], fmt::format("host arena of rank {}", index(rank)));
    device_bytes_ = device_.bytes(), host_bytes_ = host_.bytes();
    find_blocks();
}

RankArenas::RankArenas(const Schedule& schedule, Rank rank, std::span<std::byte> device, std::span<std::byte> host)
    : schedule_(schedule), rank_(rank), device_bytes_(device), host_bytes_(host) {
    for (const Space space : {Space::kDevice, Space::kHost})
        SLUICE_CHECK(static_cast<std::int64_t>(arena(space).size()) == arena_bytes(schedule, rank, space).value,
                     "an arena has the bytes that the schedule needs");
    find_blocks();
}

void RankArenas::find_blocks() {
    first_block_.reserve(schedule_.buffers.size() + 1);
    for (const Buffer& buffer : schedule_.buffers) {
        first_block_.push_back(static_cast<std::uint32_t>(block_ends_.size()));
        if (buffer.rank != rank_) continue;
        Bytes end{};
        for (const Bytes block : buffer.blocks) block_ends_.push_back(end += block);
    }
    first_block_.push_back(static_cast<std::uint32_t>(block_ends_.size()));
}

std::span<std::byte> RankArenas::arena(Space space) const {
    return space == Space::kDevice ? device_bytes_ : host_bytes_;
}

std::span<std::byte> RankArenas::span_of(BufferId id) const {
    const Buffer& buffer = schedule_.buffers[index(id)];
    return arena(buffer.space)
        .subspan(static_cast<std::size_t>(buffer.offset->value), static_cast<std::size_t>(buffer.bytes.value));
}

std::span<std::byte> RankArenas::span_of(BufferId id, std::uint32_t first, std::uint32_t last) const {
    const Bytes* const ends = block_ends_.data() + first_block_[index(id)];
    if (first_block_[index(id)] == first_block_[index(id) + 1]) return span_of(id);  // a single block
    const Bytes begin = first == 0 ? 0_B : ends[first - 1];
    return span_of(id).subspan(static_cast<std::size_t>(begin.value),
                               static_cast<std::size_t>((ends[last] - begin).value));
}

void RankArenas::poison_all() const {
    for (const Space space : {Space::kDevice, Space::kHost}) {
        std::vector<std::pair<std::size_t, std::size_t>> kept;  // begin, end
        for (const Buffer& buffer : schedule_.buffers)
            if (buffer.rank == rank_ && buffer.space == space && buffer.persistent)
                kept.emplace_back(static_cast<std::size_t>(buffer.offset->value),
                                  static_cast<std::size_t>((*buffer.offset + buffer.bytes).value));
        std::sort(kept.begin(), kept.end());
        std::size_t at = 0;
        const std::span<std::byte> all = arena(space);
        for (const auto& [begin, end] : kept) {
            if (begin > at) poison(all.subspan(at, begin - at));
            at = std::max(at, end);
        }
        poison(all.subspan(at));
    }
}

std::span<float> as_floats(std::span<std::byte> bytes) {
    SLUICE_CHECK(bytes.size() % sizeof(float) == 0, "buffers of floats hold whole floats");
    SLUICE_CHECK(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0, "floats are aligned");
    return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::vector<RankArenas> map_arenas(const Schedule& schedule, std::span<const Rank> ranks) {
    ArenaSizes all;
    for (const Rank rank : ranks) {
        ArenaSizes own = arena_sizes(schedule, rank);
        for (const Space space : {Space::kDevice, Space::kHost}) all[space] += own[space];
    }
    const Bytes device = all[Space::kDevice], host = all[Space::kHost];
    require_memory(device + host, fmt::format("the arenas of {} ranks (device {}, host {})", ranks.size(),
                                              format(device), format(host)));
    std::vector<RankArenas> arenas;
    arenas.reserve(ranks.size());
    for (const Rank rank : ranks) arenas.emplace_back(schedule, rank);
    return arenas;
}

}  // namespace sluice
