#include "random_schedule.h"

#include <array>
#include <limits>
#include <random>

namespace sluice {
namespace {

class Draw {
public:
    explicit Draw(std::uint32_t seed) : random_(seed) {}

    std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
    bool coin() { return below(2) == 0; }

    template <class Enum>
    Enum one_of(std::uint32_t values) {
        return static_cast<Enum>(below(values));
    }

    std::int64_t int64() {
        static constexpr std::array<std::int64_t, 6> kEdges{
            0, 1, -1, std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(), 1023};
        return coin() ? kEdges[below(kEdges.size())] : static_cast<std::int64_t>(below(1U << 20));
    }
    Bytes bytes() {
        const std::int64_t value = int64();
        const bool small = value > -(1 << 21) && value < (1 << 21);
        return Bytes{small ? value << (10 * below(5)) : value};
    }
    std::uint32_t uint32() {
        static constexpr std::array<std::uint32_t, 4> kEdges{0, 1, 0xfffffffeU, 0xffffffffU};
        return coin() ? kEdges[below(kEdges.size())] : below(300);
    }
    std::int32_t int32() {
        static constexpr std::array<std::int32_t, 4> kEdges{-1, 0, std::numeric_limits<std::int32_t>::max(),
                                                            std::numeric_limits<std::int32_t>::min()};
        return coin() ? kEdges[below(kEdges.size())] : static_cast<std::int32_t>(below(300));
    }
    template <class Id>
    Id id() {
        return Id{uint32()};
    }

private:
    std::mt19937 random_;
};

Kernel kernel(Draw& draw) {
    Kernel k;
    switch (draw.below(3)) {
        case 0:
            k.shape = Gemm{draw.int64(), draw.int64(), draw.int64()};
            break;
        case 1:
            k.shape = Attention{draw.one_of<Pass>(2), draw.coin(),  draw.int64(), draw.int64(),
                                draw.int64(),         draw.int64(), draw.int64()};
            break;
        default:
            k.shape = Pointwise{draw.one_of<PointwiseKind>(9), draw.bytes()};
    }
    if (draw.coin()) k.count = draw.uint32();
    return k;
}

Work work(Draw& draw) {
    switch (draw.below(5)) {
        case 0: {
            Compute c;
            for (std::uint32_t i = draw.below(4); i > 0; --i) c.kernels.push_back(kernel(draw));
            return c;
        }
        case 1:
            return Copy{draw.bytes()};
        case 2:
            return Send{draw.bytes()};
        case 3:
            return Receive{draw.bytes()};
        default:
            return Collective{draw.one_of<CollectiveKind>(6), draw.id<GroupId>(), draw.bytes(), draw.uint32(),
                              draw.uint32()};
    }
}

Tag tag(Draw& draw) {
    if (draw.below(4) == 0) return Tag{};
    return Tag{draw.one_of<Phase>(6), draw.int32(), draw.int32(), draw.int32(),
               draw.int32(),          draw.int32(), draw.int32()};
}

Op op(Draw& draw, OpId id) {
    Op o;
    o.id = id;
    o.rank = draw.id<Rank>();
    o.lane = Lane{draw.one_of<LaneKind>(6), draw.coin() ? kNoRank : draw.id<Rank>()};
    o.work = work(draw);
    for (std::uint32_t i = draw.below(3); i > 0; --i) o.after.push_back(draw.id<OpId>());
    for (std::uint32_t i = draw.below(4); i > 0; --i) {
        const auto buffer = BufferId{draw.coin() ? draw.below(4) : draw.uint32()};  // declared or not
        o.accesses.push_back(Access{buffer, draw.coin() ? 0 : draw.uint32(),
                                    draw.coin() ? draw.below(3) : draw.uint32(), draw.one_of<AccessMode>(3)});
    }
    o.tag = tag(draw);
    return o;
}

Buffer buffer(Draw& draw, BufferId id) {
    Buffer b;
    b.id = id;
    b.rank = draw.id<Rank>();
    b.space = draw.one_of<Space>(2);
    b.kind = draw.one_of<BufferKind>(kBufferKinds);
    b.persistent = draw.coin();
    b.bytes = draw.bytes();
    for (std::uint32_t i = draw.below(4); i > 0; --i) b.blocks.push_back(draw.bytes());
    if (draw.coin()) b.offset = draw.bytes();
    return b;
}

}  // namespace

Schedule random_schedule(std::uint32_t seed) {
    Draw draw(seed);
    Schedule s;
    for (std::uint32_t i = draw.below(3); i > 0; --i) s.hosts.push_back(Host{draw.bytes()});
    for (std::uint32_t i = draw.below(4); i > 0; --i) s.ranks.push_back(RankPlace{draw.id<HostId>(), draw.bytes()});
    for (std::uint32_t i = draw.below(3); i > 0; --i) {
        Group group{id_at<GroupId>(s.groups.size()), {}};
        for (std::uint32_t m = draw.below(4); m > 0; --m) group.members.push_back(draw.id<Rank>());
        s.groups.push_back(group);
    }
    for (std::uint32_t i = draw.below(5); i > 0; --i)
        s.buffers.push_back(buffer(draw, id_at<BufferId>(s.buffers.size())));
    for (std::uint32_t i = draw.below(12); i > 0; --i) s.ops.push_back(op(draw, id_at<OpId>(s.ops.size())));
    return s;
}

}  // namespace sluice
