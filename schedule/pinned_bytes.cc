#include "schedule/pinned_bytes.h"

#include <algorithm>
#include <bit>
#include <map>
#include <queue>

#include "schedule/buffer_lives.h"

namespace sluice {
namespace {

// Blocks of one size: how many are needed at most, asked for in the order of their lives' beginnings.
class SizeClass {
public:
    // Bytes freed by an op may be used by the next op listed, not by itself.
    void take(const Life& life) {
        if (!ends_.empty() && ends_.top() < life.first)
            ends_.pop();
        else
            ++blocks_;
        ends_.push(life.last);
    }
    std::int64_t blocks() const { return blocks_; }

private:
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ends_;  // last use, by block
    std::int64_t blocks_ = 0;
};

}  // namespace

std::vector<Bytes> arena_bytes(const Schedule& schedule) {
    std::vector<Bytes> result(schedule.ranks.size());
    for (const Buffer& buffer : schedule.buffers) {
        if (buffer.space != Space::kHost || !buffer.offset) continue;
        Bytes& arena = result[index(buffer.rank)];
        arena = std::max(arena, *buffer.offset + buffer.bytes);
    }
    return result;
}

std::vector<Bytes> power_of_two_bytes(const Schedule& schedule) {
    const std::vector<Life> lives = buffer_lives(schedule);
    std::vector<BufferId> hosted;
    for (const Buffer& buffer : schedule.buffers)
        if (buffer.space == Space::kHost && !lives[index(buffer.id)].never()) hosted.push_back(buffer.id);
    std::stable_sort(hosted.begin(), hosted.end(),
                     [&](BufferId a, BufferId b) { return lives[index(a)].first < lives[index(b)].first; });
    std::vector<std::map<std::uint64_t, SizeClass>> classes(schedule.ranks.size());
    for (const BufferId id : hosted) {
        const Buffer& buffer = schedule.buffers[index(id)];
        const std::uint64_t block = std::bit_ceil(static_cast<std::uint64_t>(buffer.bytes.value));
        classes[index(buffer.rank)][block].take(lives[index(id)]);
    }
    std::vector<Bytes> result(schedule.ranks.size());
    for (std::size_t r = 0; r < classes.size(); ++r)
        for (const auto& [block, of_size] : classes[r])
            result[r] += Bytes{static_cast<std::int64_t>(block)} * of_size.blocks();
    return result;
}

}  // namespace sluice
