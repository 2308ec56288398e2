// What is above NCCL, without a GPU: a fake of the library on host memory, processes and ranks as threads.
#include "runtime/nccl/nccl_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "runtime/member_share.h"
#include "tests/runtime/nccl/fake_nccl.h"
#include "tests/runtime/nccl/fake_stream_flags.h"
#include "tests/support/schedule_builder.h"
#include "tests/support/temporary_folder.h"

namespace sluice::cuda {
namespace {

// Every rank reduces over group 0 once and sends to all others; so all communicators are used.
Schedule everybody_talks(std::uint32_t ranks) {
    ScheduleBuilder b(ranks);
    for (std::uint32_t r = 0; r < ranks; ++r) {
        b.all_reduce(r);
        for (std::uint32_t to = 0; to < ranks; ++to)
            if (to != r) b.send(r, to, 4_KiB);
        for (std::uint32_t from = 0; from < ranks; ++from)
            if (from != r) b.receive(r, from, 4_KiB);
    }
    return b.schedule;
}

using Body = std::function<void(Rank, Transport&, RunMonitor&)>;

// Processes with `each` ranks, a thread per rank. Returns what each process threw.
struct NcclJob {
    std::uint32_t processes = 2, each = 2;
    std::function<void(std::uint32_t process, Schedule&)> change = {};
    int devices = 8;  // of a process
    std::uint32_t with_flags = 2;  // so many of the processes

    std::vector<std::string> run(const Body& body) const {
        const TemporaryFolder folder;
        const std::string path = folder / "meeting";
        std::vector<std::string> lines(processes);
        std::vector<std::jthread> threads;
        for (std::uint32_t p = 0; p < processes; ++p)
            threads.emplace_back([&, p] {
                try {
                    JobLimits limits;
                    limits.farewell = std::chrono::milliseconds(300);
                    Rendezvous job({p, processes, p, {path, "", 0}}, {"process " + std::to_string(p), 1}, limits);
                    run_in_job(job, [&] { run_process(job, body); });
                } catch (const std::exception& error) {
                    lines[p] = error.what();
                }
            });
        threads.clear();
        return lines;
    }

    void run_process(Rendezvous& job, const Body& body) const {
        Schedule schedule = everybody_talks(processes * each);
        if (change) change(job.process(), schedule);
        std::vector<Rank> local;
        std::vector<std::unique_ptr<FakeDevice>> owned;
        std::vector<const DevicePart*> parts;
        for (std::uint32_t k = 0; k < each; ++k) {
            local.push_back(Rank{job.process() * each + k});
            owned.push_back(std::make_unique<FakeDevice>(static_cast<int>(k) % devices));
            parts.push_back(owned.back().get());
        }
        RunMonitor monitor;
        const auto transports =
            nccl_transport(job, fake_nccl(), job.process() < with_flags ? &fake_stream_flags() : nullptr)(
                {schedule, schedule.groups, local, parts, monitor});
        std::vector<std::jthread> ranks;
        for (std::uint32_t k = 0; k < each; ++k)
            ranks.emplace_back([&, k] {
                try {
                    body(local[k], *transports[k], monitor);
                } catch (...) {
                    monitor.fail(std::current_exception(), "rank " + std::to_string(index(local[k])));
                }
            });
        ranks.clear();
        monitor.throw_failure();
        job.barrier("end");
    }
};

class NcclTransportTest : public testing::Test {
protected:
    void SetUp() override { reset_fake_nccl(), reset_fake_stream_flags(); }
};

std::span<std::byte> bytes(std::vector<float>& values) { return std::as_writable_bytes(std::span(values)); }
std::span<const std::byte> bytes(const std::vector<float>& values) { return std::as_bytes(std::span(values)); }

constexpr TransportCall kCall{OpId{}, "a call", nullptr};
const std::vector<std::string> kBothFine(2);

TEST_F(NcclTransportTest, moves_and_sums_as_the_interface_says) {
    const GroupId all{0};
    const auto lines = NcclJob{}.run([&](Rank rank, Transport& transport, RunMonitor&) {
        const float r = static_cast<float>(index(rank));
        for (int round = 0; round < 3; ++round) {
            std::vector<float> gathered(8), mine = {r, 10 * r};
            transport.all_gather(kCall, all, bytes(mine), bytes(gathered));
            EXPECT_EQ(gathered, (std::vector<float>{0, 0, 1, 10, 2, 20, 3, 30}));
            std::vector<float> part(2);
            for (float& value : gathered) value += r;
            transport.reduce_scatter(kCall, all, ElementType::kFp32, bytes(std::as_const(gathered)), bytes(part));
            EXPECT_EQ(part, (std::vector<float>{4 * r + 6, 40 * r + 6}));
            std::vector<float> first = {r, 1}, second = {2 * r};
            const std::array<std::span<std::byte>, 3> pieces = {bytes(first), std::span<std::byte>{}, bytes(second)};
            transport.all_reduce(kCall, all, ElementType::kFp32, pieces);
            EXPECT_EQ(first, (std::vector<float>{6, 4}));
            EXPECT_EQ(second, (std::vector<float>{12}));
        }
    });
    EXPECT_EQ(lines, kBothFine);
}

// Pieces that four members share evenly, with a rest, and so that the last two have nothing.
TEST_F(NcclTransportTest, shares_out_pieces_in_place) {
    const auto lines = NcclJob{}.run([&](Rank rank, Transport& transport, RunMonitor&) {
        std::vector<std::vector<float>> values = {std::vector<float>(8), std::vector<float>(11), std::vector<float>(2)};
        std::vector<std::span<std::byte>> pieces;
        for (std::vector<float>& piece : values) {
            for (std::size_t i = 0; i < piece.size(); ++i)
                piece[i] = static_cast<float>(i) + 100 * static_cast<float>(index(rank));
            pieces.push_back(bytes(piece));
        }
        transport.reduce_scatter_shares(kCall, GroupId{0}, ElementType::kFp32, pieces);
        for (const std::vector<float>& piece : values) {
            const MemberShare own = member_share(piece.size(), index(rank), 4);
            for (std::size_t i = own.first; i < own.first + own.count; ++i)
                EXPECT_EQ(piece[i], static_cast<float>(4 * i) + 600);
        }
        transport.all_gather_shares(kCall, GroupId{0}, ElementType::kFp32, pieces);
        for (const std::vector<float>& piece : values)
            for (std::size_t i = 0; i < piece.size(); ++i) EXPECT_EQ(piece[i], static_cast<float>(4 * i) + 600);
    });
    EXPECT_EQ(lines, kBothFine);
}

TEST_F(NcclTransportTest, exchanges_several_tensors_at_once) {
    const auto lines = NcclJob{}.run([&](Rank rank, Transport& transport, RunMonitor&) {
        const float r = static_cast<float>(index(rank));
        std::vector<std::vector<float>> sent, received(8, std::vector<float>(1));
        std::vector<std::span<const std::byte>> out;
        std::vector<std::span<std::byte>> in;
        for (int tensor = 0; tensor < 2; ++tensor)
            for (int to = 0; to < 4; ++to)
                sent.push_back({100 * static_cast<float>(tensor) + 10 * r + static_cast<float>(to)});
        for (std::size_t k = 0; k < 8; ++k)
            out.push_back(bytes(std::as_const(sent[k]))), in.push_back(bytes(received[k]));
        transport.all_to_all(kCall, GroupId{0}, out, in);
        for (int tensor = 0; tensor < 2; ++tensor)
            for (int from = 0; from < 4; ++from)
                EXPECT_EQ(received[static_cast<std::size_t>(4 * tensor + from)][0],
                          100 * static_cast<float>(tensor) + 10 * static_cast<float>(from) + r);
    });
    EXPECT_EQ(lines, kBothFine);
}

TEST_F(NcclTransportTest, sends_in_both_directions_without_order_between_them) {
    const auto lines = NcclJob{}.run([&](Rank rank, Transport& transport, RunMonitor&) {
        const Rank other{static_cast<std::uint32_t>(index(rank)) ^ 2U};  // of the other process
        std::vector<float> mine = {static_cast<float>(index(rank))}, theirs(1);
        // A call returns when it is on its stream: in the library, and in its fake, when the partner has come.
        std::jthread sender([&] { transport.send(kCall, other, bytes(std::as_const(mine))); });
        transport.receive(kCall, other, bytes(theirs));
        EXPECT_EQ(theirs[0], static_cast<float>(index(other)));
    });
    EXPECT_EQ(lines, kBothFine);
}

// From the second step on.
TEST_F(NcclTransportTest, holds_receives_back_until_their_sends_begin) {
    for (const std::uint32_t processes : {1U, 2U}) {
        reset_fake_nccl();
        const auto lines = NcclJob{processes, 2 / processes}.run([&](Rank rank, Transport& transport, RunMonitor&) {
            for (int k = 0; k < 3; ++k) {
                transport.begin_step();
                std::vector<float> value = {rank == Rank{0} ? static_cast<float>(k) : -1};
                if (rank == Rank{1}) {
                    transport.receive(kCall, Rank{0}, bytes(value));
                    EXPECT_EQ(value[0], static_cast<float>(k));
                    continue;
                }
                for (int i = 0; k > 0 && fake_streams_waiting() == 0 && i < 5000; ++i)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                EXPECT_EQ(fake_streams_waiting(), k > 0 ? 1U : 0U);
                transport.send(kCall, Rank{1}, bytes(std::as_const(value)));
            }
        });
        EXPECT_EQ(lines, std::vector<std::string>(processes));
        EXPECT_EQ(fake_pages_pinned(), 0U);
    }
}

// A process on another host, or without such flags in its driver.
TEST_F(NcclTransportTest, holds_nothing_back_where_one_end_has_no_flags) {
    NcclJob job{2, 1};
    job.with_flags = 1;
    const auto lines = job.run([&](Rank rank, Transport& transport, RunMonitor&) {
        const Rank other = rank == Rank{0} ? Rank{1} : Rank{0};
        for (int k = 0; k < 3; ++k) {
            transport.begin_step();
            std::vector<float> mine = {static_cast<float>(k)}, theirs(1);
            std::jthread sender([&] { transport.send(kCall, other, bytes(std::as_const(mine))); });
            transport.receive(kCall, other, bytes(theirs));
            EXPECT_EQ(theirs[0], static_cast<float>(k));
        }
    });
    EXPECT_EQ(lines, kBothFine);
    EXPECT_EQ(fake_stream_waits(), 0U);
}

TEST_F(NcclTransportTest, a_failure_lets_receives_pass_that_are_held_back) {
    const auto lines = NcclJob{1, 2}.run([&](Rank rank, Transport& transport, RunMonitor&) {
        std::vector<float> value = {1};
        transport.begin_step(), transport.begin_step();
        if (rank == Rank{0}) {
            for (int i = 0; fake_streams_waiting() == 0 && i < 5000; ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            EXPECT_EQ(fake_streams_waiting(), 1U);
            throw EnvironmentError("the disk is full");
        }
        EXPECT_THROW(transport.receive(kCall, Rank{0}, bytes(value)), RunStopped);
    });
    EXPECT_EQ(lines[0], "rank 0: the disk is full");
    EXPECT_EQ(fake_streams_waiting(), 0U);
    EXPECT_EQ(fake_pages_pinned(), 0U);
}

TEST_F(NcclTransportTest, has_a_communicator_for_every_group_and_direction) {
    EXPECT_EQ(NcclJob{}.run([](Rank, Transport&, RunMonitor&) {}), kBothFine);
    // One group of 4; 12 ordered pairs of 2. Groups that no op names have none.
    EXPECT_EQ(fake_nccl_counts().begun, 4U + 24U);
    EXPECT_EQ(fake_nccl_counts().aborted, fake_nccl_counts().begun);
}

TEST_F(NcclTransportTest, calls_that_differ_end_the_job_before_anything_is_made) {
    NcclJob job;
    job.change = [](std::uint32_t process, Schedule& schedule) {
        if (process == 1) schedule.ops[index(OpId{14})].tag.phase = Phase::kBackward;
    };
    const auto lines = job.run([](Rank, Transport&, RunMonitor&) { ADD_FAILURE() << "it ran"; });
    EXPECT_EQ(lines[0], lines[1]);
    EXPECT_NE(lines[0].find("group 0, call 0: rank 0 calls op 0, all_reduce 1.00 KiB, forward, but rank 2 calls op 14, "
                            "all_reduce 1.00 KiB, backward, expected the same call"),
              std::string::npos)
        << lines[0];
    EXPECT_EQ(fake_nccl_counts().begun, 0U);
}

// An open group would swallow all later calls of the thread.
TEST_F(NcclTransportTest, a_group_of_calls_is_closed_when_one_throws) {
    static int calls = 0;
    calls = 0;
    NcclFunctions nccl = fake_nccl();
    nccl.begin = [](ncclComm** comm, int members, const NcclId* id, int member) {
        return ++calls == 2 ? 2 : fake_nccl().begin(comm, members, id, member);  // the second member finds no memory
    };
    const Schedule schedule = everybody_talks(2);
    const std::vector<Rank> local = {Rank{0}, Rank{1}};
    const FakeDevice first(0), second(1);
    const std::vector<const DevicePart*> devices = {&first, &second};
    RunMonitor monitor;
    Rendezvous job({}, {"process", 1});
    EXPECT_THROW(nccl_transport(job, nccl, nullptr)({schedule, schedule.groups, local, devices, monitor}),
                 EnvironmentError);
    EXPECT_EQ(calls, 2);
    EXPECT_FALSE(fake_nccl_group_is_open());
}

TEST_F(NcclTransportTest, two_ranks_on_one_gpu_are_refused) {
    NcclJob job{1, 2};  // one process: of several the first to say so wins
    job.devices = 1;
    const auto lines = job.run([](Rank, Transport&, RunMonitor&) {});
    EXPECT_NE(lines[0].find("NCCL needs a GPU for every rank: got rank 1 on GPU 0, which another one has"),
              std::string::npos)
        << lines[0];
}

// The partner never comes: who waits is called back when the run fails, and every communicator is aborted.
TEST_F(NcclTransportTest, a_failure_calls_everybody_back) {
    const auto lines = NcclJob{1, 4}.run([&](Rank rank, Transport& transport, RunMonitor& monitor) {
        if (rank == Rank{3}) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            throw EnvironmentError("the disk is full");
        }
        std::vector<float> values(4);
        const std::array<std::span<std::byte>, 1> pieces = {bytes(values)};
        EXPECT_THROW(transport.all_reduce(kCall, GroupId{0}, ElementType::kFp32, pieces), RunStopped);
        EXPECT_TRUE(monitor.stopped());
        EXPECT_THROW(transport.all_reduce(kCall, GroupId{0}, ElementType::kFp32, pieces), RunStopped);
    });
    EXPECT_EQ(lines[0], "rank 3: the disk is full");
    EXPECT_EQ(fake_nccl_counts().aborted, fake_nccl_counts().begun);
}

// Two calls are under way on a GPU when the run fails. An abort of one of them ends when the other is aborted, too,
// whoever aborts: the thread that watches, or, when everybody goes at once, the last that held the communicators.
TEST_F(NcclTransportTest, communicators_of_one_gpu_are_aborted_at_once) {
    for (const bool goes_at_once : {false, true}) {
        reset_fake_nccl();
        const auto lines = NcclJob{1, 2}.run([&](Rank rank, Transport& transport, RunMonitor& monitor) {
            if (rank == Rank{1}) {
                std::vector<float> values(4), received(4);
                const std::array<std::span<std::byte>, 1> pieces = {bytes(values)};
                std::jthread receiver(
                    [&] { EXPECT_THROW(transport.receive(kCall, Rank{0}, bytes(received)), RunStopped); });
                EXPECT_THROW(transport.all_reduce(kCall, GroupId{0}, ElementType::kFp32, pieces), RunStopped);
                receiver.join();
                if (!goes_at_once) std::this_thread::sleep_for(std::chrono::milliseconds(200));
                return;
            }
            while (fake_nccl_calls_under_way() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            monitor.fail(FailureKind::kEnvironment, "rank 0: the disk is full");
        });
        EXPECT_EQ(lines[0], "rank 0: the disk is full");
        EXPECT_EQ(fake_nccl_counts().stuck, 0U) << goes_at_once;
        EXPECT_EQ(fake_nccl_counts().aborted, fake_nccl_counts().begun);
    }
}

// Nobody calls anything: the thread that watches sees it.
TEST_F(NcclTransportTest, an_error_under_way_is_noticed_and_named) {
    const auto lines = NcclJob{1, 2}.run([&](Rank rank, Transport&, RunMonitor& monitor) {
        if (rank == Rank{0}) break_fake_nccl(6);
        for (int i = 0; i < 5000 && !monitor.stopped(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    EXPECT_EQ(lines[0], "group 0, a call under way: NCCL says: remote process exited (the other one hung up)");
}

// Errors of a process are those of all.
TEST_F(NcclTransportTest, an_error_in_one_process_ends_the_others) {
    std::atomic<bool> broken{false};
    const auto lines = NcclJob{}.run([&](Rank, Transport&, RunMonitor& monitor) {
        if (!broken.exchange(true)) break_fake_nccl(6);
        for (int i = 0; i < 5000 && !monitor.stopped(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    EXPECT_NE(lines[0].find("NCCL says: remote process exited"), std::string::npos) << lines[0];
    EXPECT_EQ(lines[0], lines[1]);
}

}  // namespace
}  // namespace sluice::cuda
