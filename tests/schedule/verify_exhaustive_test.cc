// Every schedule of two ranks and up to four ops: verify's deadlock and match rules accept exactly those that an
// independent interpreter runs to the end.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "schedule/verify.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

// Runs rules 1-3 literally: again and again, whatever can run does.
class Interpreter {
public:
    explicit Interpreter(const Schedule& schedule) : schedule_(schedule), done_(schedule.ops.size(), false) {}

    bool finishes() {
        for (bool progress = true; progress;) {
            progress = false;
            for (const Op& op : schedule_.ops) progress |= try_to_run(op);
        }
        return std::all_of(done_.begin(), done_.end(), [](bool done) { return done; });
    }

private:
    bool try_to_run(const Op& op) {
        if (!ready(op)) return false;
        if (std::holds_alternative<Compute>(op.work)) return finish({&op});
        for (const Op& other : schedule_.ops)  // two ranks: everything else has one partner
            if (other.rank != op.rank && ready(other) && meets(op, other)) return finish({&op, &other});
        return false;
    }

    bool ready(const Op& op) const {
        if (done_[index(op.id)]) return false;
        for (const OpId earlier : op.after)
            if (!done_[index(earlier)]) return false;
        for (const Op& other : schedule_.ops)
            if (other.id < op.id && other.rank == op.rank && other.lane == op.lane && !done_[index(other.id)])
                return false;
        return true;
    }

    // Lanes are queues and both are at their heads, so that the k-th meets the k-th.
    static bool meets(const Op& a, const Op& b) {
        if (std::holds_alternative<Send>(a.work)) return std::holds_alternative<Receive>(b.work);
        if (std::holds_alternative<Receive>(a.work)) return std::holds_alternative<Send>(b.work);
        return a.work == b.work;
    }

    bool finish(std::initializer_list<const Op*> ops) {
        for (const Op* op : ops) done_[index(op->id)] = true;
        return true;
    }

    const Schedule& schedule_;
    std::vector<bool> done_;
};

enum class Kind : std::uint8_t { kCompute, kSend, kReceive, kAllReduce };
constexpr std::size_t kKinds = 4;

void add(ScheduleBuilder& b, std::uint32_t rank, Kind kind) {
    switch (kind) {
        case Kind::kCompute:
            b.compute(rank);
            break;
        case Kind::kSend:
            b.send(rank, 1 - rank, 1_KiB);
            break;
        case Kind::kReceive:
            b.receive(rank, 1 - rank, 1_KiB);
            break;
        case Kind::kAllReduce:
            b.all_reduce(rank);
            break;
    }
}

struct Tally {
    std::size_t schedules = 0, accepted = 0;
};

// All sets of at most `limit` `after` entries among ops of one rank, forward and backward.
void check_all_after(Schedule schedule, int limit, Tally& tally) {
    std::vector<std::pair<std::size_t, OpId>> edges;  // (op, what it may wait for)
    for (const Op& a : schedule.ops)
        for (const Op& b : schedule.ops)
            if (a.id != b.id && a.rank == b.rank) edges.emplace_back(index(a.id), b.id);
    for (std::uint32_t mask = 0; mask < 1U << edges.size(); ++mask) {
        if (std::popcount(mask) > limit) continue;
        for (Op& op : schedule.ops) op.after.clear();
        for (std::size_t e = 0; e < edges.size(); ++e)
            if ((mask >> e & 1U) != 0) schedule.ops[edges[e].first].after.push_back(edges[e].second);
        const bool accepted = verify(schedule).empty();
        ++tally.schedules;
        tally.accepted += accepted;
        ASSERT_EQ(accepted, Interpreter(schedule).finishes()) << "mask " << mask;
    }
}

// The ranks are alike, so the first op is on rank 0. Where all four ops are on one rank and not all of them compute,
// partners are missing whatever `after` says: there, sets of two entries have to do.
void check_all_kinds(std::size_t count, std::uint32_t ranks, Tally& tally) {
    std::size_t combinations = 1;
    for (std::size_t i = 0; i < count; ++i) combinations *= kKinds;
    for (std::size_t code = 0; code < combinations; ++code) {
        ScheduleBuilder b(2);
        std::size_t rest = code;
        for (std::size_t i = 0; i < count; ++i, rest /= kKinds)
            add(b, ranks >> i & 1U, static_cast<Kind>(rest % kKinds));
        check_all_after(std::move(b.schedule), count == 4 && ranks == 0 && code != 0 ? 2 : 12, tally);
    }
}

TEST(VerifyExhaustive, AcceptsExactlyWhatAnInterpreterFinishes) {
    Tally tally;
    for (std::size_t count = 0; count <= 4; ++count)
        for (std::uint32_t ranks = 0; ranks < 1U << count; ranks += 2) {
            check_all_kinds(count, ranks, tally);
            if (HasFatalFailure()) return;
        }
    EXPECT_EQ(tally.schedules, 107014U);
    EXPECT_EQ(tally.accepted, 1372U);
}

}  // namespace
}  // namespace sluice
