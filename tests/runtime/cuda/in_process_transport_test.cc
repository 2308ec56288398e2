// Messages between ranks of one process, without a GPU: streams on paper, run in random orders.
#include "runtime/cuda/in_process_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/communicators.h"
#include "tests/runtime/cuda/shuffled_streams.h"

namespace sluice::cuda {
namespace {

class PaperDevice : public DevicePart {
public:
    explicit PaperDevice(ShuffledStreams& streams) : streams_(streams) {}
    void make_current() const override {}
    Stream new_stream() const override { return streams_.new_stream(); }
    int device() const override { return 0; }

private:
    ShuffledStreams& streams_;
};

Op op_of(std::uint32_t rank, Lane lane, Work work) {
    Op op;
    op.rank = Rank{rank};
    op.lane = lane;
    op.work = std::move(work);
    return op;
}

// Ranks that are all in one group, and send to each other in both directions.
Schedule schedule_of(std::uint32_t ranks) {
    Schedule s;
    Group all;
    for (std::uint32_t r = 0; r < ranks; ++r) {
        s.ranks.emplace_back();
        all.members.push_back(Rank{r});
    }
    s.groups.push_back(all);
    for (std::uint32_t a = 0; a < ranks; ++a)
        for (std::uint32_t b = 0; b < ranks; ++b)
            if (a != b) s.ops.push_back(op_of(a, {LaneKind::kSend, Rank{b}}, Send{}));
    return s;
}

// Ranks 0 .. n-1 as threads, with a stream each.
struct Team {
    explicit Team(std::uint32_t n, bool forgetful = false)
        : schedule(schedule_of(n)), streams(std::make_shared<ShuffledStreams>(forgetful)), device(*streams) {
        for (std::uint32_t r = 0; r < n; ++r) {
            local.push_back(Rank{r});
            devices.push_back(&device);
            stream.push_back(streams->new_stream());
        }
        ranks = in_process_transports({schedule, schedule.groups, local, devices, monitor}, streams);
    }

    // Calls `work(rank)` on a thread per rank; returns what each threw, "" for nothing.
    std::vector<std::string> issue(const std::function<void(std::uint32_t)>& work) {
        std::vector<std::string> errors(ranks.size());
        std::vector<std::jthread> threads;
        for (std::uint32_t r = 0; r < ranks.size(); ++r)
            threads.emplace_back([&, r] {
                try {
                    work(r);
                } catch (const InternalError& error) {
                    errors[r] = error.what();
                } catch (const RunStopped&) {
                    errors[r] = "stopped";
                }
            });
        threads.clear();
        return errors;
    }
    TransportCall call(std::uint32_t rank, std::string_view what) const { return {OpId{}, what, stream[rank]}; }

    Schedule schedule;
    RunMonitor monitor;
    std::shared_ptr<ShuffledStreams> streams;
    PaperDevice device;
    std::vector<Rank> local;
    std::vector<const DevicePart*> devices;
    std::vector<Stream> stream;
    std::vector<std::unique_ptr<Transport>> ranks;
};

constexpr std::size_t kPart = 130;  // more than a share's step, and no multiple of it
constexpr std::size_t kOdd = 41 * sizeof(float);
constexpr GroupId kAll{0};

// A rank's memory for one call. Whole numbers, below what bf16 has exactly even as a sum.
float value(std::size_t call, std::uint32_t rank, std::size_t i) {
    return static_cast<float>((call * 7 + rank * 3 + i) % 50);
}

// Every rank makes the same calls, all on one stream and in one buffer: it fills the buffer, calls, looks at the result
// and spoils the buffer for the next call, each time as work of the stream.
class Exchange {
public:
    Exchange(Team& team, std::uint32_t rank, std::atomic<int>& wrong)
        : team_(team),
          rank_(rank),
          wrong_(wrong),
          n_(static_cast<std::uint32_t>(team.ranks.size())),
          memory_(kPart * n_ * 2) {}

    void step(std::size_t call) {
        fill(call);
        Transport& t = *team_.ranks[rank_];
        const TransportCall here = team_.call(rank_, "the same");
        const auto all = half(0), other = half(1);
        switch (call % 7) {
            case 0:
                t.all_gather(here, kAll, part(all, rank_), all);
                expect(call, [=, this](std::size_t i) { return value(call, member_of(i), i); });
                break;
            case 1:
                t.reduce_scatter(here, kAll, ElementType::kFp32, all, part(all, rank_));
                expect(call, [=, this](std::size_t i) {
                    return member_of(i) == rank_ ? sum(call, i) : value(call, rank_, i);
                });
                break;
            case 2: {
                pieces_ = {all.first(40), all.subspan(40)};
                t.all_reduce(here, kAll, ElementType::kFp32, pieces_);
                expect(call, [=, this](std::size_t i) { return sum(call, i); });
                break;
            }
            case 3:
                outs_.clear(), ins_.clear();
                for (std::uint32_t m = 0; m < n_; ++m) outs_.push_back(part(other, m)), ins_.push_back(part(all, m));
                t.all_to_all(here, kAll, outs_, ins_);
                expect(call, [=, this](std::size_t i) { return value(call, member_of(i), other_at(rank_, i)); });
                break;
            case 4:  // pieces of an odd length: the last member's share is shorter
                pieces_ = {all.first(kOdd), all.subspan(kOdd)};
                t.all_gather_shares(here, kAll, ElementType::kFp32, pieces_);
                expect(call, [=, this](std::size_t i) { return value(call, sharer_of(i), i); });
                break;
            case 5:
                pieces_ = {all.first(kOdd), all.subspan(kOdd)};
                t.reduce_scatter_shares(here, kAll, ElementType::kFp32, pieces_);
                expect(call, [=, this](std::size_t i) {
                    return sharer_of(i) == rank_ ? sum(call, i) : value(call, rank_, i);
                });
                break;
            default:
                pass_on(call, t, here, all, other);
        }
        team_.streams->call(team_.stream[rank_], [this] { std::fill(memory_.begin(), memory_.end(), -1.0F); });
    }

private:
    // Around the ring: even ranks send first, so that threads do not wait for each other in a circle.
    void pass_on(std::size_t call, Transport& t, const TransportCall& here, std::span<std::byte> all,
                 std::span<std::byte> other) {
        const std::uint32_t next = (rank_ + 1) % n_, before = (rank_ + n_ - 1) % n_;
        const auto send = [&] { t.send(here, Rank{next}, other); };
        const auto receive = [&] { t.receive(here, Rank{before}, all); };
        if (rank_ % 2 == 0) send(), receive();
        if (rank_ % 2 == 1) receive(), send();
        expect(call, [=, this](std::size_t i) { return value(call, before, kPart * n_ + i); });
    }

    void fill(std::size_t call) {
        team_.streams->call(team_.stream[rank_], [=, this] {
            for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = value(call, rank_, i);
        });
    }
    template <class Want>
    void expect(std::size_t, Want want) {
        team_.streams->call(team_.stream[rank_], [=, this] {
            for (std::size_t i = 0; i < kPart * n_; ++i) wrong_ += memory_[i] != want(i);
        });
    }
    float sum(std::size_t call, std::size_t i) const {
        float total = 0;
        for (std::uint32_t m = 0; m < n_; ++m) total += value(call, m, i);
        return total;
    }
    std::uint32_t member_of(std::size_t i) const { return static_cast<std::uint32_t>(i / kPart); }
    // Of which member's share is value i.
    std::uint32_t sharer_of(std::size_t i) const {
        constexpr std::size_t kFirst = kOdd / sizeof(float);
        const bool first = i < kFirst;
        const std::size_t count = first ? kFirst : kPart * n_ - kFirst;
        return static_cast<std::uint32_t>((first ? i : i - kFirst) / ((count + n_ - 1) / n_));
    }
    std::size_t other_at(std::uint32_t rank, std::size_t i) const { return kPart * (n_ + rank) + i % kPart; }
    std::span<std::byte> half(std::size_t k) {
        return std::as_writable_bytes(std::span(memory_).subspan(k * kPart * n_, kPart * n_));
    }
    static std::span<std::byte> part(std::span<std::byte> all, std::uint32_t m) {
        return all.subspan(m * kPart * sizeof(float), kPart * sizeof(float));
    }

    Team& team_;
    const std::uint32_t rank_;
    std::atomic<int>& wrong_;
    const std::uint32_t n_;
    std::vector<float> memory_;
    std::vector<std::span<std::byte>> pieces_, ins_;
    std::vector<std::span<const std::byte>> outs_;
};

// How many values were wrong.
int exchange(std::uint32_t ranks, std::uint32_t seed, bool forgetful) {
    Team team(ranks, forgetful);
    std::atomic<int> wrong = 0;
    std::vector<std::unique_ptr<Exchange>> all;
    for (std::uint32_t r = 0; r < ranks; ++r) all.push_back(std::make_unique<Exchange>(team, r, wrong));
    const std::vector<std::string> errors = team.issue([&](std::uint32_t r) {
        for (std::size_t call = 0; call < 21; ++call) all[r]->step(call);
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    EXPECT_TRUE(team.streams->run(seed)) << "a stream waits for ever";
    return wrong;
}

TEST(InProcessTransport, EveryOrderOfTheStreamsGivesTheSame) {
    for (const std::uint32_t ranks : {2U, 4U})
        for (std::uint32_t seed = 0; seed < 25; ++seed)
            EXPECT_EQ(exchange(ranks, seed, false), 0) << ranks << " " << seed;
}

TEST(InProcessTransport, WithoutItsWaitsItWouldNot) {
    int wrong = 0;
    for (std::uint32_t seed = 0; seed < 5; ++seed) wrong += exchange(2, seed, true) > 0;
    EXPECT_EQ(wrong, 5);
}

TEST(InProcessTransport, SumsOfEveryType) {
    Team team(2);
    std::vector<std::vector<double>> doubles = {{1e100, 1}, {-1e100, 2}};
    std::vector<std::vector<Bf16>> halves(2, std::vector<Bf16>{to_bf16(1.5F), to_bf16(-3)});
    const auto errors = team.issue([&](std::uint32_t r) {
        const std::span<std::byte> norm = std::as_writable_bytes(std::span(doubles[r]));
        const std::span<std::byte> rows = std::as_writable_bytes(std::span(halves[r]));
        team.ranks[r]->all_reduce(team.call(r, "norm"), kAll, ElementType::kFp64, {&norm, 1});
        team.ranks[r]->all_reduce(team.call(r, "rows"), kAll, ElementType::kBf16, {&rows, 1});
    });
    EXPECT_EQ(errors, (std::vector<std::string>(2)));
    ASSERT_TRUE(team.streams->run(1));
    for (std::uint32_t r = 0; r < 2; ++r) {
        EXPECT_EQ(doubles[r], (std::vector<double>{0, 3}));
        EXPECT_EQ(to_float(halves[r][0]), 3);
        EXPECT_EQ(to_float(halves[r][1]), -6);
    }
}

TEST(InProcessTransport, CallsThatDoNotMatchAreBothNamed) {
    Team team(2);
    std::vector<std::byte> memory(64);
    const auto errors = team.issue([&](std::uint32_t r) {
        const std::span<std::byte> all = std::span(memory).subspan(r * 32, 32);
        if (r == 0) team.ranks[r]->all_gather(team.call(r, "forward sub 1"), kAll, all.first(16), all);
        if (r == 1)
            team.ranks[r]->reduce_scatter(team.call(r, "forward sub 2"), kAll, ElementType::kFp32, all, all.first(16));
    });
    for (const std::string& error : errors)
        EXPECT_EQ(error,
                  "group 0, call 0: rank 0 calls all_gather of 32 bytes for \"forward sub 1\", but rank 1 calls "
                  "reduce_scatter of 32 bytes for \"forward sub 2\", expected the same call");
}

TEST(InProcessTransport, MessagesOfOtherSizesAreBothNamed) {
    Team team(2);
    std::vector<std::byte> memory(64);
    const auto errors = team.issue([&](std::uint32_t r) {
        if (r == 0) team.ranks[r]->send(team.call(r, "sub 1"), Rank{1}, std::span(memory).first(16));
        if (r == 1) team.ranks[r]->receive(team.call(r, "sub 1"), Rank{0}, std::span(memory).first(32));
    });
    for (const std::string& error : errors)
        EXPECT_EQ(error,
                  "transfer from rank 0 to rank 1, call 0: rank 0 calls transfer of 16 bytes for \"sub 1\", but "
                  "rank 1 calls transfer of 32 bytes for \"sub 1\", expected the same call");
}

TEST(InProcessTransport, PartsThatAreNotEqualAreRefused) {
    Team team(2);
    std::vector<std::byte> memory(64);
    const auto errors = team.issue([&](std::uint32_t r) {
        const std::span<std::byte> all = std::span(memory).subspan(r * 32, 32);
        team.ranks[r]->all_gather(team.call(r, "x"), kAll, all.first(r == 0 ? 16 : 12), all);
    });
    for (const std::string& error : errors)
        EXPECT_EQ(error,
                  "group 0, call 0: rank 1 calls all_gather of 32 bytes for \"x\", but its part has 12 bytes, "
                  "expected 16");
}

TEST(InProcessTransport, SharesOfOtherPiecesAreRefused) {
    Team team(2);
    std::vector<std::byte> memory(64);
    const auto errors = team.issue([&](std::uint32_t r) {
        const std::span<std::byte> own = std::span(memory).subspan(r * 32, 32);
        const std::size_t cut = r == 0 ? 16 : 8;
        const std::vector<std::span<std::byte>> pieces = {own.first(cut), own.subspan(cut)};
        team.ranks[r]->all_gather_shares(team.call(r, "weights"), kAll, ElementType::kBf16, pieces);
    });
    for (const std::string& error : errors)
        EXPECT_EQ(error,
                  "group 0, call 0: rank 1 calls all_gather of 32 bytes for \"weights\", but in other pieces than "
                  "rank 0");
}

TEST(InProcessTransport, AFailureElsewhereEndsACallThatWaits) {
    Team team(2);
    std::vector<std::byte> memory(16);
    const auto errors = team.issue([&](std::uint32_t r) {
        if (r == 0) team.ranks[r]->send(team.call(r, "sub 1"), Rank{1}, memory);
        if (r == 1) team.monitor.fail(FailureKind::kInput, "no more tokens");
    });
    EXPECT_EQ(errors[0], "stopped");
}

TEST(InProcessTransport, RanksOfAnotherProcessAreRefused) {
    const Schedule schedule = schedule_of(3);
    RunMonitor monitor;
    const auto streams = std::make_shared<ShuffledStreams>();
    const PaperDevice device(*streams);
    const std::vector<Rank> local = {Rank{0}, Rank{1}};
    const std::vector<const DevicePart*> devices(2, &device);
    try {
        in_process_transports({schedule, schedule.groups, local, devices, monitor}, streams);
        ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
        EXPECT_STREQ(error.what(), "group 0 has rank 2, which another process runs, expected all ranks in this one");
    }
}

}  // namespace
}  // namespace sluice::cuda
