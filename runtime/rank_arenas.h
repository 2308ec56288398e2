// The memory of one rank of a placed schedule: a device arena and a pinned host arena, and where its buffers lie in
// them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/ids.h"
#include "runtime/arena.h"
#include "schedule/schedule.h"

namespace sluice {

class RankArenas {
public:
    // Both arenas end where their highest buffer does. Refers to the schedule. Throws InputError for a buffer without
    // offset, EnvironmentError when the machine refuses.
    RankArenas(const Schedule& schedule, Rank rank);

    // Over memory that somebody else owns and that may be a GPU's, of exactly these bytes (arena_bytes() says how
    // many). Then poison_all() is not for it.
    RankArenas(const Schedule& schedule, Rank rank, std::span<std::byte> device, std::span<std::byte> host);

    // Requires: a buffer of this rank, blocks in range. Neither allocates nor fails.
    std::span<std::byte> span_of(BufferId buffer) const;
    std::span<std::byte> span_of(BufferId buffer, std::uint32_t first_block, std::uint32_t last_block) const;
    std::span<std::byte> span_of(const Access& access) const {
        return span_of(access.buffer, access.first_block, access.last_block);
    }

    std::span<std::byte> arena(Space space) const;
    Rank rank() const { return rank_; }

    // Fills all that does not lie in a persistent buffer.
    void poison_all() const;

private:
    void find_blocks();

    const Schedule& schedule_;
    Rank rank_;
    Arena device_, host_;  // empty where the memory is somebody else's
    std::span<std::byte> device_bytes_, host_bytes_;
    std::vector<std::uint32_t> first_block_;  // by buffer, one more at the end: index into block_ends_
    std::vector<Bytes> block_ends_;           // within the buffer; of buffers of this rank only
};

// Up to the end of the highest buffer of a rank. Throws InputError for a buffer without offset.
Bytes arena_bytes(const Schedule& schedule, Rank rank, Space space);

// The bytes seen as floats. Requires: a multiple of 4 of them, aligned; both are checked (InternalError).
std::span<float> as_floats(std::span<std::byte> bytes);

// One entry for each of these ranks, in their order. Refuses first (EnvironmentError) when all arenas together exceed
// the memory that is available, with the bytes of device and host arenas in the message.
std::vector<RankArenas> map_arenas(const Schedule& schedule, std::span<const Rank> ranks);

}  // namespace sluice
