#include "schedule/buffer_lives.h"

#include <algorithm>

namespace sluice {

std::vector<Life> buffer_lives(const Schedule& schedule) {
    std::vector<Life> lives(schedule.buffers.size());
    std::vector<std::uint32_t> issued(schedule.ranks.size(), 0);
    for (const Op& op : schedule.ops) {
        const std::uint32_t position = issued[index(op.rank)]++;
        for (const Access& access : op.accesses) {
            Life& life = lives[index(access.buffer)];
            if (life.never()) life.first = position;
            life.last = position;
        }
    }
    for (const Buffer& buffer : schedule.buffers)
        if (buffer.persistent) lives[index(buffer.id)] = {0, std::max(issued[index(buffer.rank)], 1U) - 1};
    return lives;
}

std::vector<std::vector<OpId>> ops_by_rank(const Schedule& schedule) {
    std::vector<std::vector<OpId>> result(schedule.ranks.size());
    for (const Op& op : schedule.ops) result[index(op.rank)].push_back(op.id);
    return result;
}

}  // namespace sluice
