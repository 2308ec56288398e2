// Small schedules for tests, in a few words. One host, ranks with plenty of memory, group 0 of all ranks and then, for
// every rank, a group of its own, on which a collective needs no partner.
//
//   ScheduleBuilder b(2);
//   const BufferId x = b.device(0, 4_KiB);
//   const OpId made = b.compute(0, {write(x)});
//   b.send(0, 1, 4_KiB, {read(x)}, {made});
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

namespace sluice {

inline Access access_all(BufferId buffer, AccessMode mode) { return {buffer, 0, 0, mode}; }
inline Access read(BufferId buffer) { return access_all(buffer, AccessMode::kRead); }
inline Access write(BufferId buffer) { return access_all(buffer, AccessMode::kWrite); }
inline Access accumulate(BufferId buffer) { return access_all(buffer, AccessMode::kAccumulate); }

class ScheduleBuilder {
public:
    Schedule schedule;

    explicit ScheduleBuilder(std::uint32_t ranks) {
        schedule.hosts.push_back({1024_GiB});
        schedule.groups.push_back({GroupId{0}, {}});
        for (std::uint32_t r = 0; r < ranks; ++r) {
            schedule.ranks.push_back({HostId{0}, 1024_GiB});
            schedule.groups[0].members.push_back(id_at<Rank>(r));
            schedule.groups.push_back({id_at<GroupId>(r + 1), {id_at<Rank>(r)}});
        }
    }

    BufferId buffer(std::uint32_t rank, Space space, Bytes bytes, std::uint32_t blocks = 1) {
        const BufferId id = id_at<BufferId>(schedule.buffers.size());
        Buffer buffer{id, id_at<Rank>(rank), space, BufferKind::kActivation, false, bytes * blocks, {}, {}};
        if (blocks > 1) buffer.blocks.assign(blocks, bytes);
        schedule.buffers.push_back(buffer);
        return id;
    }
    BufferId device(std::uint32_t rank, Bytes bytes) { return buffer(rank, Space::kDevice, bytes); }
    BufferId host(std::uint32_t rank, Bytes bytes) { return buffer(rank, Space::kHost, bytes); }

    OpId op(std::uint32_t rank, Lane lane, Work work, std::vector<Access> accesses, std::vector<OpId> after) {
        const OpId id = id_at<OpId>(schedule.ops.size());
        schedule.ops.push_back(
            {id, id_at<Rank>(rank), lane, std::move(work), std::move(after), std::move(accesses), {}});
        return id;
    }
    OpId compute(std::uint32_t rank, std::vector<Access> accesses = {}, std::vector<OpId> after = {}) {
        return op(rank, {LaneKind::kCompute, kNoRank}, Compute{}, std::move(accesses), std::move(after));
    }
    OpId copy_out(std::uint32_t rank, BufferId from, BufferId to, std::vector<OpId> after = {}) {
        return op(rank, {LaneKind::kCopyOut, kNoRank}, Copy{1_B}, {read(from), write(to)}, std::move(after));
    }
    OpId copy_in(std::uint32_t rank, BufferId from, BufferId to, std::vector<OpId> after = {}) {
        return op(rank, {LaneKind::kCopyIn, kNoRank}, Copy{1_B}, {read(from), write(to)}, std::move(after));
    }
    OpId send(std::uint32_t from, std::uint32_t to, Bytes bytes, std::vector<Access> accesses = {},
              std::vector<OpId> after = {}) {
        return op(from, {LaneKind::kSend, id_at<Rank>(to)}, Send{bytes}, std::move(accesses), std::move(after));
    }
    OpId receive(std::uint32_t to, std::uint32_t from, Bytes bytes, std::vector<Access> accesses = {},
                 std::vector<OpId> after = {}) {
        return op(to, {LaneKind::kReceive, id_at<Rank>(from)}, Receive{bytes}, std::move(accesses), std::move(after));
    }
    // On group 0, everybody.
    OpId all_reduce(std::uint32_t rank, std::vector<Access> accesses = {}, std::vector<OpId> after = {}) {
        return collective(rank, 0, std::move(accesses), std::move(after));
    }
    // On the rank's own group.
    OpId lone_collective(std::uint32_t rank, std::vector<Access> accesses = {}, std::vector<OpId> after = {}) {
        return collective(rank, rank + 1, std::move(accesses), std::move(after));
    }

private:
    OpId collective(std::uint32_t rank, std::uint32_t group, std::vector<Access> accesses, std::vector<OpId> after) {
        return op(rank, {LaneKind::kCollective, kNoRank},
                  Collective{CollectiveKind::kAllReduce, id_at<GroupId>(group), 1_KiB, 1, 0}, std::move(accesses),
                  std::move(after));
    }
};

}  // namespace sluice
