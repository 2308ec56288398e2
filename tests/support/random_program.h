// Random programs of ranks that have no partners: four lanes each, device and host buffers, copies between them.
#pragma once

#include <cstdint>
#include <random>

#include "tests/support/schedule_builder.h"

namespace sluice {

struct RandomProgram {
    std::uint32_t ranks = 1, ops = 12, buffers = 5;
    std::uint32_t after_percent = 50;  // how often an op has an `after` edge
    bool forward_references = false;   // `after` may name ops listed later: cycles may arise
    std::uint32_t blocks_at_most = 1;  // blocks of a buffer
};

// Nothing is ordered on purpose: races, unwritten reads and (if asked for) cycles are common.
inline Schedule random_program(std::uint32_t seed, const RandomProgram& shape) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    ScheduleBuilder b(shape.ranks);
    std::vector<std::vector<BufferId>> device(shape.ranks), host(shape.ranks);
    for (std::uint32_t r = 0; r < shape.ranks; ++r)
        for (std::uint32_t i = 0; i < shape.buffers; ++i) {
            device[r].push_back(b.buffer(r, Space::kDevice, Bytes{1 + below(2000)}, 1 + below(shape.blocks_at_most)));
            host[r].push_back(b.buffer(r, Space::kHost, Bytes{1 + below(2000)}, 1 + below(shape.blocks_at_most)));
        }
    const auto some_access = [&](BufferId buffer, AccessMode mode) {
        const std::uint32_t count = b.schedule.buffers[index(buffer)].block_count();
        const std::uint32_t first = below(count);
        return Access{buffer, first, first + below(count - first), mode};
    };
    for (std::uint32_t i = 0; i < shape.ops; ++i) {
        const std::uint32_t r = below(shape.ranks);
        const BufferId on_device = device[r][below(shape.buffers)], on_host = host[r][below(shape.buffers)];
        OpId op{};
        switch (below(4)) {
            case 0:
                op = b.copy_out(r, on_device, on_host);
                break;
            case 1:
                op = b.copy_in(r, on_host, on_device);
                break;
            case 2:
                op = b.lone_collective(r);
                break;
            default:
                op = b.compute(r);
        }
        auto& accesses = b.schedule.ops[index(op)].accesses;
        if (accesses.empty())
            for (std::uint32_t n = below(4); n > 0; --n)
                accesses.push_back(some_access(device[r][below(shape.buffers)], static_cast<AccessMode>(below(3))));
    }
    for (Op& op : b.schedule.ops)
        while (below(100) < shape.after_percent) {
            const std::uint32_t limit =
                shape.forward_references && below(4) == 0 ? shape.ops : static_cast<std::uint32_t>(index(op.id));
            if (limit == 0) break;
            const OpId other = id_at<OpId>(below(limit));
            if (other != op.id && b.schedule.ops[index(other)].rank == op.rank) op.after.push_back(other);
        }
    return std::move(b.schedule);
}

inline bool conflict(const Access& a, const Access& b) {
    return a.buffer == b.buffer && a.first_block <= b.last_block && b.first_block <= a.last_block &&
           (a.mode != AccessMode::kRead || b.mode != AccessMode::kRead);
}

// Orders every pair of conflicting accesses as listed, and turns first accesses into writes: no race, no unwritten
// read. Requires: buffers of one block.
inline void make_race_free(Schedule& schedule) {
    std::vector<bool> written(schedule.buffers.size(), false);
    for (Op& op : schedule.ops) {
        std::erase_if(op.accesses, [&](const Access& access) {
            return access.mode != AccessMode::kWrite && !written[index(access.buffer)] &&
                   std::holds_alternative<Copy>(op.work);
        });
        if (std::holds_alternative<Copy>(op.work) && op.accesses.size() < 2) {  // nothing to copy yet: compute instead
            op.work = Compute{};
            op.lane = {LaneKind::kCompute, kNoRank};
        }
        for (Access& access : op.accesses) {
            if (!written[index(access.buffer)]) access.mode = AccessMode::kWrite;
            if (access.mode == AccessMode::kWrite) written[index(access.buffer)] = true;
        }
        for (const Op& earlier : schedule.ops) {
            if (earlier.id >= op.id) break;
            for (const Access& a : earlier.accesses)
                for (const Access& mine : op.accesses)
                    if (conflict(a, mine)) op.after.push_back(earlier.id);
        }
    }
}

}  // namespace sluice
