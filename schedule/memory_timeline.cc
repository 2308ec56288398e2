#include "schedule/memory_timeline.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "schedule/block_taker.h"

namespace sluice {
namespace {

struct Change {
    double time = 0;
    Bytes delta{};
    BufferKind kind = BufferKind::kActivation;
    OpId op = kNoOp;  // that brings the block to life; kNoOp when it dies
};

// When every block of every buffer begins and ends to live.
struct BlockLives {
    std::vector<std::size_t> first;  // of a buffer; one more than buffers
    std::vector<double> born, dies;  // born is infinite for a block that nobody uses
    std::vector<OpId> born_of;
};

std::vector<OpId> in_order(std::span<const OpRun> runs, bool by_end) {
    std::vector<OpId> order(runs.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = id_at<OpId>(i);
    std::sort(order.begin(), order.end(), [&](OpId a, OpId b) {
        const OpRun &x = runs[index(a)], &y = runs[index(b)];
        return by_end ? std::tuple(-x.end, a) < std::tuple(-y.end, b) : std::tuple(x.begin, a) < std::tuple(y.begin, b);
    });
    return order;
}

BlockLives block_lives(const Schedule& schedule, std::span<const OpRun> runs) {
    BlockLives lives;
    lives.first.push_back(0);
    for (const Buffer& b : schedule.buffers) lives.first.push_back(lives.first.back() + b.block_count());
    const std::size_t blocks = lives.first.back();
    lives.born.assign(blocks, std::numeric_limits<double>::infinity());
    lives.dies.assign(blocks, 0);
    lives.born_of.assign(blocks, kNoOp);

    BlockTaker unborn(lives.first, blocks);
    for (const OpId id : in_order(runs, false)) {
        for (const Access& access : schedule.ops[index(id)].accesses) {
            unborn.take(access, [&](std::size_t b) {
                lives.born[b] = runs[index(id)].begin;
                lives.born_of[b] = id;
            });
        }
    }
    BlockTaker undead(lives.first, blocks);
    for (const OpId id : in_order(runs, true)) {
        for (const Access& access : schedule.ops[index(id)].accesses) {
            undead.take(access, [&](std::size_t b) { lives.dies[b] = runs[index(id)].end; });
        }
    }
    return lives;
}

std::size_t pool_of(const Schedule& schedule, const Buffer& buffer) {
    if (buffer.space == Space::kDevice) return index(buffer.rank);
    return schedule.ranks.size() + index(schedule.ranks[index(buffer.rank)].host);
}

std::vector<std::vector<Change>> changes_by_pool(const Schedule& schedule, std::span<const OpRun> runs) {
    std::vector<std::vector<Change>> changes(schedule.ranks.size() + schedule.hosts.size());
    const BlockLives lives = block_lives(schedule, runs);
    for (const Buffer& buffer : schedule.buffers) {
        std::vector<Change>& pool = changes[pool_of(schedule, buffer)];
        if (buffer.persistent) {
            pool.push_back({0, buffer.bytes, buffer.kind, kNoOp});
            continue;
        }
        const std::size_t first = lives.first[index(buffer.id)];
        for (std::uint32_t k = 0; k < buffer.block_count(); ++k) {
            const std::size_t b = first + k;
            if (!(lives.born[b] < lives.dies[b])) continue;  // unused, or used by ops without duration only
            const Bytes bytes = buffer.blocks.empty() ? buffer.bytes : buffer.blocks[k];
            pool.push_back({lives.born[b], bytes, buffer.kind, lives.born_of[b]});
            pool.push_back({lives.dies[b], -bytes, buffer.kind, kNoOp});
        }
    }
    for (std::vector<Change>& pool : changes) {
        std::stable_sort(pool.begin(), pool.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
    }
    return changes;
}

void fill_samples(const std::vector<Change>& changes, PoolTimeline& pool) {
    Bytes live{}, peak{};
    std::array<Bytes, kBufferKinds> kinds{};
    pool.samples.push_back({});
    for (std::size_t i = 0; i < changes.size();) {
        const double now = changes[i].time;
        OpId op = kNoOp;
        for (; i < changes.size() && changes[i].time == now; ++i) {
            live += changes[i].delta;
            kinds[static_cast<std::size_t>(changes[i].kind)] += changes[i].delta;
            op = std::min(op, changes[i].op);
        }
        if (live > peak) {
            peak = live;
            pool.peak_time = Seconds{now};
            pool.peak_op = op;
            pool.peak_kinds = kinds;
        }
        LiveSample& last = pool.samples.back();
        if (last.time.value == now) {
            last.live = live;
        } else if (last.live != live) {
            pool.samples.push_back({Seconds{now}, live});
        }
    }
}

void fill_arenas(const Schedule& schedule, std::vector<PoolTimeline>& pools) {
    const std::size_t ranks = schedule.ranks.size();
    std::vector<Bytes> device(ranks), host(ranks);
    for (const Buffer& buffer : schedule.buffers) {
        if (!buffer.offset) continue;
        Bytes& arena = (buffer.space == Space::kDevice ? device : host)[index(buffer.rank)];
        arena = std::max(arena, *buffer.offset + buffer.bytes);
    }
    for (std::size_t r = 0; r < ranks; ++r) {
        pools[r].arena = device[r];
        pools[ranks + index(schedule.ranks[r].host)].arena += host[r];
    }
}

}  // namespace

std::vector<PoolTimeline> memory_timelines(const Schedule& schedule, std::span<const OpRun> runs) {
    const std::size_t ranks = schedule.ranks.size();
    const std::vector<std::vector<Change>> changes = changes_by_pool(schedule, runs);
    std::vector<PoolTimeline> pools(changes.size());
    for (std::size_t p = 0; p < pools.size(); ++p) {
        pools[p].host = p >= ranks;
        pools[p].owner = static_cast<std::uint32_t>(p >= ranks ? p - ranks : p);
        fill_samples(changes[p], pools[p]);
    }
    fill_arenas(schedule, pools);
    return pools;
}

}  // namespace sluice
