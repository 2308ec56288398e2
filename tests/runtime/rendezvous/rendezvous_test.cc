// Several processes' ends in threads of this one.
#include "runtime/rendezvous/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/error.h"
#include "runtime/rendezvous/call_parcel.h"
#include "runtime/rendezvous/connection.h"
#include "runtime/rendezvous/meeting_socket.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

std::vector<std::byte> filled(std::size_t count, int value) {
    return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

JobLimits quick() {
    JobLimits limits;
    limits.join = milliseconds(5000);
    limits.heartbeat = milliseconds(20);
    limits.watch = {milliseconds(2000), milliseconds(400)};
    limits.reports = milliseconds(500);
    limits.farewell = milliseconds(300);
    return limits;
}

// Runs `body` for every process; what one throws is its line.
std::vector<std::string> run_job(std::uint32_t processes, const std::function<void(Rendezvous&)>& body,
                                 const std::function<void(std::uint32_t, LaunchPlace&, JobMember&)>& change = {},
                                 const JobLimits& limits = quick()) {
    const TemporaryFolder folder;
    const std::string path = folder / "meeting";
    std::vector<std::string> lines(processes);
    {
        std::vector<std::jthread> threads;
        for (std::uint32_t p = 0; p < processes; ++p)
            threads.emplace_back([&, p] {
                LaunchPlace place{p, processes, p, {path, "", 0}};
                JobMember member{"rank " + std::to_string(p), 7};
                if (change) change(p, place, member);
                try {
                    Rendezvous rendezvous(place, member, limits);
                    run_in_job(rendezvous, [&] { body(rendezvous); });
                } catch (const std::exception& error) {
                    lines[p] = error.what();
                }
            });
    }
    EXPECT_FALSE(std::filesystem::exists(path)) << "the meeting point is taken away";
    return lines;
}

const std::vector<std::string> kFourFine(4);

TEST(Rendezvous, gathers_broadcasts_and_waits) {
    std::atomic<int> arrived{0};
    const auto lines = run_job(4, [&](Rendezvous& rendezvous) {
        const auto p = rendezvous.process();
        for (int round = 0; round < 5; ++round) {
            const auto all = rendezvous.gather("all", filled(p * 10, static_cast<int>(p) + round));
            ASSERT_EQ(all.size(), p == 0 ? 4U : 0U);
            for (std::uint32_t q = 0; q < all.size(); ++q)
                EXPECT_EQ(all[q], filled(q * 10, static_cast<int>(q) + round));
            EXPECT_EQ(rendezvous.broadcast("id", filled(p == 0 ? 128 : 3, round)), filled(128, round));
        }
        ++arrived;
        rendezvous.barrier("all have arrived");
        EXPECT_EQ(arrived, 4);
    });
    EXPECT_EQ(lines, kFourFine);
}

TEST(Rendezvous, moves_what_is_larger_than_a_frame) {
    const std::size_t large = kLargestPayload + 100, larger = 2 * kLargestPayload;
    const auto lines = run_job(3, [&](Rendezvous& rendezvous) {
        const auto p = rendezvous.process();
        const auto all = rendezvous.gather("large", filled(p == 1   ? larger
                                                           : p == 2 ? 10
                                                                    : large,
                                                           40 + static_cast<int>(p)));
        if (p == 0) {
            EXPECT_TRUE(all[0] == filled(large, 40));
            EXPECT_TRUE(all[1] == filled(larger, 41));
            EXPECT_TRUE(all[2] == filled(10, 42));
        }
        EXPECT_TRUE(rendezvous.broadcast("back", p == 0 ? filled(large, 9) : filled(0, 0)) == filled(large, 9));
    });
    EXPECT_EQ(lines, std::vector<std::string>(3));
}

TEST(Rendezvous, works_over_tcp_and_of_one_process_alone) {
    const auto of_tcp = [](std::uint32_t, LaunchPlace& place, JobMember&) {
        place.meeting = {"", "127.0.0.1", static_cast<std::uint16_t>(20000 + getpid() % 20000)};
    };
    const auto body = [](Rendezvous& rendezvous) { rendezvous.gather("all", filled(5, 5)); };
    EXPECT_EQ(run_job(3, body, of_tcp), std::vector<std::string>(3));
    EXPECT_EQ(run_job(1, body), std::vector<std::string>(1));
}

// Threads of one process have one clock.
TEST(Rendezvous, finds_the_offsets_of_clocks) {
    const auto lines = run_job(3, [&](Rendezvous& rendezvous) {
        for (const ClockOffset& offset : rendezvous.clock_offsets()) {
            EXPECT_GE(offset.within, 0);
            EXPECT_LE(std::abs(offset.nanoseconds), offset.within + 1);
        }
        rendezvous.barrier("measured");
    });
    EXPECT_EQ(lines, std::vector<std::string>(3));
}

TEST(Rendezvous, other_calls_end_the_job_and_are_named) {
    const auto lines = run_job(4, [&](Rendezvous& rendezvous) {
        rendezvous.barrier("first");
        if (rendezvous.process() == 2)
            rendezvous.barrier("third");
        else
            rendezvous.gather("second", {});
        rendezvous.barrier("last");
    });
    EXPECT_EQ(lines,
              std::vector<std::string>(4, "rank 0 makes call 1, \"second\", but rank 2 makes call 1, \"third\""));
}

TEST(Rendezvous, a_failure_is_everybodys_with_what_was_in_flight) {
    const auto lines = run_job(4, [&](Rendezvous& rendezvous) {
        const auto p = rendezvous.process();
        std::atomic<bool> stopped{false};
        const std::string name = "rank " + std::to_string(p);
        JobRun run;
        run.in_step = [] { return true; };
        run.ended_ops = [] { return std::uint64_t{0}; };
        run.in_flight = [&] { return p == 1 ? "" : name + ": op " + std::to_string(10 + p); };
        run.stop = [&](FailureKind, const std::string&) { stopped = true; };
        const Rendezvous::Watch watch(rendezvous, run);
        rendezvous.barrier("all run");
        if (p == 3) throw InputError("the data ends");
        while (!stopped) std::this_thread::sleep_for(milliseconds(1));
        throw RunStopped{};
    });
    EXPECT_EQ(lines, std::vector<std::string>(
                         4, "rank 3: the data ends; in flight: rank 0: op 10; rank 2: op 12; rank 3: op 13"));
}

// Its own thread fails, with nobody else to tell.
TEST(Rendezvous, a_process_alone_is_watched_too) {
    const auto lines = run_job(1, [&](Rendezvous& rendezvous) {
        std::atomic<bool> stopped{false};
        JobRun run;
        run.in_step = [] { return true; };
        run.ended_ops = [] { return std::uint64_t{3}; };
        run.in_flight = [&] { return "rank 0: op 4"; };
        run.stop = [&](FailureKind, const std::string&) { stopped = true; };
        const Rendezvous::Watch watch(rendezvous, run);
        while (!stopped) std::this_thread::sleep_for(milliseconds(1));
        throw RunStopped{};
    });
    EXPECT_NE(lines[0].find("the step is stuck; rank 0 has been still for longest"), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("; in flight: rank 0: op 4"), std::string::npos) << lines[0];
}

TEST(Rendezvous, processes_that_do_not_belong_together_are_refused_everywhere) {
    using Change = std::function<void(std::uint32_t, LaunchPlace&, JobMember&)>;
    const auto line = [](const Change& change) {
        auto lines = run_job(
            4, [](Rendezvous& rendezvous) { rendezvous.barrier("begin"); }, change);
        // Who comes late finds nobody any more.
        for (std::string& l : lines)
            if (l.find("process 0") != std::string::npos) l = lines[0];
        EXPECT_EQ(lines, std::vector<std::string>(4, lines[0]));
        return lines[0];
    };
    EXPECT_EQ(
        line([](std::uint32_t p, LaunchPlace&, JobMember& member) { member.digest = p == 2 ? 8 : 7; }),
        "rank 2 has another schedule (0000000000000008) than rank 0 (0000000000000007), expected the same scenario "
        "and version of sluice in all processes");
    EXPECT_EQ(line([](std::uint32_t p, LaunchPlace& place, JobMember&) { place.processes = p == 1 ? 5 : 4; }),
              "rank 1 is one of 5 processes, but rank 0 of 4, expected as many for all of a job");
    const std::string twice = line([](std::uint32_t p, LaunchPlace& place, JobMember& member) {
        place.process = p == 3 ? 2 : p;
        member.name = "rank " + std::to_string(place.process);
    });
    EXPECT_EQ(twice, "rank 2 came twice as process 2, expected every process of a job once");
}

TEST(Rendezvous, says_who_has_not_come) {
    JobLimits limits = quick();
    limits.join = milliseconds(300);
    const TemporaryFolder folder;
    const std::string path = folder / "meeting";
    try {
        Rendezvous({0, 3, 0, {path, "", 0}}, {"rank 0", 7}, limits);
        FAIL();
    } catch (const EnvironmentError& error) {
        EXPECT_EQ(error.what(), "file:" + path + ": 2 of 3 processes have not come: process 1, 2");
    }
    EXPECT_THROW(Rendezvous({1, 3, 1, {path, "", 0}}, {"rank 1", 7}, limits), EnvironmentError);
}

// A socket that was left behind is replaced; a file that is none is left alone.
TEST(Rendezvous, takes_an_abandoned_meeting_point_only) {
    const TemporaryFolder folder;
    const std::string path = folder / "meeting";
    { const Descriptor left = listen_at({path, "", 0}); }
    ASSERT_TRUE(std::filesystem::exists(path));
    EXPECT_TRUE(listen_at({path, "", 0}));
    std::filesystem::remove(path);
    const Descriptor used = listen_at({path, "", 0});
    EXPECT_THROW(listen_at({path, "", 0}), EnvironmentError);
    std::filesystem::remove(path);
    std::ofstream(path) << "somebody's";
    EXPECT_THROW(listen_at({path, "", 0}), InputError);
    EXPECT_TRUE(std::filesystem::is_regular_file(path));
    std::filesystem::remove(path);
    EXPECT_THROW(listen_at({path + std::string(200, 'x'), "", 0}), InputError);
}

// Garbage, silence and half a hello, before and while the others come.
TEST(Rendezvous, strangers_do_not_keep_a_job_from_beginning) {
    const TemporaryFolder folder;
    const std::string path = folder / "meeting";
    const auto until = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(5); };
    std::vector<std::string> lines(2);
    std::vector<std::jthread> threads;
    const auto come = [&](std::uint32_t p) {
        try {
            Rendezvous rendezvous({p, 2, p, {path, "", 0}}, {"rank " + std::to_string(p), 7}, quick());
            rendezvous.barrier("begin");
        } catch (const std::exception& error) {
            lines[p] = error.what();
        }
    };
    threads.emplace_back([&] { come(0); });
    std::vector<Descriptor> strangers;
    const std::string_view garbage = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    for (int i = 0; i < 100; ++i) {
        strangers.push_back(connect_to({path, "", 0}, until()));
        if (i % 3 == 0) send(strangers.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
        if (i % 3 == 1) {
            const auto half = frame_bytes(FrameKind::kHello, filled(10, 0));
            send(strangers.back().get(), half.data(), half.size() / 2, MSG_NOSIGNAL);
        }
        if (i % 7 == 0) strangers.back() = Descriptor();
    }
    strangers.resize(40);
    threads.emplace_back([&] { come(1); });
    threads.clear();
    EXPECT_EQ(lines, std::vector<std::string>(2));
}

}  // namespace
}  // namespace sluice
