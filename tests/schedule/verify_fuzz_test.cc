// Valid schedules with a few fields changed: values that pass the first checks and reach the deep ones. verify() must
// return, and the sanitizers must have nothing to say.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "schedule/place_memory.h"
#include "schedule/verify.h"
#include "tests/support/random_program.h"

namespace sluice {
namespace {

class Mutator {
public:
    explicit Mutator(std::uint32_t seed) : random_(seed) {}

    void mutate(Schedule& s) {
        switch (below(8)) {
            case 0:
                return change(s.ranks[below(s.ranks.size())]);
            case 1:
                return change(s.groups[below(s.groups.size())]);
            case 2:
            case 3:
                if (!s.buffers.empty()) change(s.buffers[below(s.buffers.size())]);
                return;
            default:
                if (!s.ops.empty()) change(s.ops[below(s.ops.size())]);
        }
    }

private:
    std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }

    // Mostly small: near what is valid. Rarely as large as the type allows.
    template <class Id>
    Id id() {
        return static_cast<Id>(below(20) == 0 ? 0xffffffffU - below(2) : below(12));
    }
    Bytes bytes() {
        constexpr std::array<std::int64_t, 5> kExtreme{0, -1, std::numeric_limits<std::int64_t>::max(),
                                                       std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 60};
        return below(10) == 0 ? Bytes{kExtreme[below(kExtreme.size())]} : Bytes{1 + std::int64_t{below(4000)}};
    }
    template <class Enum>
    Enum any(std::uint32_t values) {
        return static_cast<Enum>(below(30) == 0 ? 255 : below(values));
    }

    void change(RankPlace& place) {
        if (below(2) == 0)
            place.host = id<HostId>();
        else
            place.device_capacity = bytes();
    }
    void change(Group& group) {
        if (below(2) == 0 && !group.members.empty())
            group.members.pop_back();
        else
            group.members.push_back(id<Rank>());
    }
    void change(Buffer& buffer) {
        switch (below(6)) {
            case 0:
                buffer.rank = id<Rank>();
                break;
            case 1:
                buffer.space = any<Space>(2);
                break;
            case 2:
                buffer.bytes = bytes();
                break;
            case 3:
                buffer.offset = bytes();
                break;
            case 4:
                buffer.blocks.push_back(bytes());
                break;
            default:
                buffer.persistent = !buffer.persistent;
        }
    }
    void change(Op& op) {
        switch (below(7)) {
            case 0:
                op.rank = id<Rank>();
                break;
            case 1:
                op.lane = {any<LaneKind>(6), below(2) == 0 ? kNoRank : id<Rank>()};
                break;
            case 2:
                op.after.push_back(id<OpId>());
                break;
            case 3:
                op.accesses.push_back({id<BufferId>(), below(2), below(2), any<AccessMode>(3)});
                break;
            case 4:
                op.work = Collective{any<CollectiveKind>(6), id<GroupId>(), bytes(), below(3), below(3)};
                break;
            case 5:
                op.lane = {LaneKind::kSend, id<Rank>()};
                op.work = Send{bytes()};
                break;
            default:
                op.lane = {LaneKind::kReceive, id<Rank>()};
                op.work = Receive{bytes()};
        }
    }

    std::mt19937 random_;
};

TEST(VerifyFuzz, ReturnsOnNearlyValidSchedules) {
    std::size_t valid = 0;
    std::set<std::string> rules;
    for (std::uint32_t seed = 0; seed < 6000; ++seed) {
        Schedule schedule = random_program(
            seed, {.ranks = 1 + seed % 3, .ops = seed % 12, .buffers = 1 + seed % 3, .after_percent = 30});
        make_race_free(schedule);
        if (seed % 2 == 0) place_memory(schedule);
        Mutator mutator(seed);
        for (std::uint32_t n = seed % 6; n > 0; --n) mutator.mutate(schedule);
        const Diagnostics found = verify(schedule);
        valid += found.empty();
        for (const Diagnostic& d : found) rules.insert(d.rule);
    }
    EXPECT_GT(valid, 1000U);
    EXPECT_GT(rules.size(), 20U);
}

}  // namespace
}  // namespace sluice
