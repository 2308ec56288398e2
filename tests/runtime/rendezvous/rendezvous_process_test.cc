// Real processes, killed, stopped and misled at random points of a run: all others end in time with one line.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/process_group.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kProcesses = 4;
constexpr std::chrono::seconds kLimit{10};  // what the product promises

class ToyJob {
public:
    explicit ToyJob(const std::string& steps) : steps_(steps) {}

    void start(std::uint32_t rank, const std::vector<std::string>& mischief = {}, const std::string& digest = "11") {
        std::vector<std::string> command = {SLUICE_TOY_JOB, meeting_, digest, steps_};
        command.insert(command.end(), mischief.begin(), mischief.end());
        group.start(command, {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(kProcesses),
                              "LOCAL_RANK=" + std::to_string(rank)});
    }
    // `who` alone gets the mischief.
    void start_all(std::uint32_t who = kProcesses, const std::vector<std::string>& mischief = {}) {
        for (std::uint32_t rank = 0; rank < kProcesses; ++rank)
            start(rank, rank == who ? mischief : std::vector<std::string>{});
    }
    void wait_for_steps(std::size_t steps) {
        for (const auto until = Clock::now() + kLimit; group.lines(0) < steps && Clock::now() < until;)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_GE(group.lines(0), steps);
    }

    // Until so many have connected to process 0, which listens at the meeting's socket.
    void wait_for_connections(std::size_t connections) {
        const auto connected = [&] {
            std::ifstream sockets("/proc/net/unix");  // the one that listens, and one for each that came
            std::size_t found = 0;
            for (std::string line; std::getline(sockets, line);)
                found += line.ends_with(" " + meeting_.substr(std::string_view("file:").size())) ? 1 : 0;
            return found > connections;
        };
        for (const auto until = Clock::now() + kLimit; !connected() && Clock::now() < until;)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_TRUE(connected());
    }

    // Everybody but `except` ends with the code and with a last line that has all the words.
    void expect_end(std::uint32_t except, int code, const std::vector<std::string>& words) {
        const auto until = Clock::now() + kLimit;
        for (std::uint32_t rank = 0; rank < kProcesses; ++rank) {
            if (rank == except) continue;
            const auto ended = group.wait(rank, until);
            ASSERT_TRUE(ended) << "rank " << rank << " still runs";
            EXPECT_EQ(ended->code, code) << "rank " << rank << ", signal " << ended->signal << ": " << ended->output;
            for (const std::string& word : words)
                EXPECT_NE(last_line(ended->output).find(word), std::string::npos)
                    << "rank " << rank << " lacks '" << word << "': " << ended->output;
        }
    }
    static std::string last_line(const std::string& text) {
        if (text.empty()) return text;
        const std::size_t before = text.rfind('\n', text.size() - 2);
        return before == std::string::npos ? text : text.substr(before + 1);
    }

private:
    const std::string steps_;
    const TemporaryFolder folder_;
    const std::string meeting_ = "file:" + (folder_ / "meeting");

public:
    ProcessGroup group;  // last: it ends before its folder goes
};

TEST(RendezvousProcesses, run_to_their_end) {
    ToyJob job("4");
    job.start_all();
    job.expect_end(kProcesses, 0, {});
    EXPECT_EQ(job.group.lines(0), 4U);
}

TEST(RendezvousProcesses, end_when_one_is_killed_at_any_point) {
    std::minstd_rand random(1);
    for (int round = 0; round < 20; ++round) {
        ToyJob job("100000");
        const auto victim = static_cast<std::uint32_t>(random() % kProcesses);
        job.start_all();
        job.wait_for_steps(1 + random() % 3);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 25000));
        job.group.signal(victim, SIGKILL);
        job.expect_end(victim, 3, {"rank " + std::to_string(victim) + " is lost: its connection ended"});
        if (HasFatalFailure()) return;
    }
}

TEST(RendezvousProcesses, end_when_one_is_killed_before_all_are_there) {
    ToyJob job("10");
    job.start(0), job.start(1), job.start(2);
    job.wait_for_connections(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // says who it is
    job.group.signal(2, SIGKILL);
    const auto until = Clock::now() + kLimit;
    for (const std::uint32_t rank : {0U, 1U}) {
        const auto ended = job.group.wait(rank, until);
        ASSERT_TRUE(ended);
        EXPECT_EQ(ended->code, 3);
        EXPECT_EQ(ended->output, "failed: rank 2 ended before all processes were there\n");
    }
}

// It keeps its connection, and says nothing.
TEST(RendezvousProcesses, end_when_one_is_stopped) {
    for (const std::uint32_t victim : {0U, 2U}) {
        ToyJob job("100000");
        job.start_all();
        job.wait_for_steps(2);
        job.group.signal(victim, SIGSTOP);
        job.expect_end(victim, 3, {"rank " + std::to_string(victim) + " has said nothing for"});
        job.group.signal(victim, SIGCONT);  // finds the job over
        const auto ended = job.group.wait(victim, Clock::now() + kLimit);
        ASSERT_TRUE(ended);
        EXPECT_EQ(ended->code, 3) << ended->output;
    }
}

TEST(RendezvousProcesses, end_when_one_throws) {
    for (const std::uint32_t who : {0U, 3U}) {
        ToyJob job("100000");
        job.start_all(who, {"throw", "47"});
        job.expect_end(kProcesses, 3,
                       {"failed: rank " + std::to_string(who) + ": op 47: the toy broke; in flight:",
                        "rank " + std::to_string(who) + ": op 47"});
    }
}

TEST(RendezvousProcesses, end_when_an_op_never_returns_anywhere) {
    ToyJob job("100000");
    for (std::uint32_t rank = 0; rank < kProcesses; ++rank) job.start(rank, {"stall", "45"});
    job.expect_end(kProcesses, 3,
                   {"abandoned: no op of any rank has ended for", "the step is stuck",
                    "in flight: rank 0: op 45; rank 1: op 45; rank 2: op 45; rank 3: op 45"});
}

// As a driver does that waits itself: signs of life and the end of the job come all the same.
TEST(RendezvousProcesses, end_when_an_op_never_returns_and_nor_does_who_looks_at_it) {
    for (const std::uint32_t who : {0U, 2U}) {
        ToyJob job("100000");
        for (std::uint32_t rank = 0; rank < kProcesses; ++rank)
            job.start(rank, {rank == who ? "mute" : "none", "45", "1000"});
        const std::string name = "rank " + std::to_string(who);
        job.expect_end(
            kProcesses, 3,
            {"the step is stuck; " + name + " has been still for longest", name + ": the device does not answer"});
    }
}

// It cannot say itself that it has failed, nor leave the job while somebody looks at it, and nothing is ever stuck.
TEST(RendezvousProcesses, end_when_one_that_failed_is_not_unwound) {
    for (const std::string mischief : {"linger", "cling"})
        for (const std::uint32_t who : {0U, 3U}) {
            ToyJob job("100000");
            for (std::uint32_t rank = 0; rank < kProcesses; ++rank)
                job.start(rank, {rank == who ? mischief : "none", "47", "0"});
            const std::string line = "rank " + std::to_string(who) + ": op 47: the toy broke";
            job.expect_end(who, 3, {"failed: " + line});
            const auto ended = job.group.wait(who, Clock::now() + kLimit);
            ASSERT_TRUE(ended) << mischief;
            EXPECT_EQ(ended->code, 3) << mischief;
            EXPECT_NE(ToyJob::last_line(ended->output).find("abandoned: " + line), std::string::npos) << ended->output;
        }
}

// The others have ended the step and wait for it.
TEST(RendezvousProcesses, end_when_an_op_of_one_never_returns) {
    for (const std::uint32_t who : {0U, 2U}) {
        ToyJob job("100000");
        job.start_all(who, {"stall", "45"});
        job.expect_end(kProcesses, 3,
                       {"the step is stuck; rank " + std::to_string(who) + " has been still for longest",
                        "in flight: rank " + std::to_string(who) + ": op 45"});
    }
}

TEST(RendezvousProcesses, end_when_one_calls_something_else) {
    ToyJob job("100000");
    job.start_all(2, {"swap", "60"});
    job.expect_end(kProcesses, 3,
                   {"failed: rank 0 makes call 2, \"findings of step 2\", but rank 2 makes call 2, \"traces\""});
}

TEST(RendezvousProcesses, end_when_one_is_done_too_early) {
    ToyJob job("100000");
    job.start_all(1, {"leave", "60"});
    job.expect_end(1, 3, {"failed: rank 1 has ended, but rank 0 still waits for it"});
    EXPECT_EQ(job.group.wait(1, Clock::now() + kLimit)->code, 0);
}

TEST(RendezvousProcesses, of_another_schedule_end_the_job_before_it_begins) {
    ToyJob job("10");
    for (const std::uint32_t rank : {0U, 1U, 2U}) job.start(rank);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    job.start(3, {}, "12");
    job.expect_end(kProcesses, 2,
                   {"input: rank 3 has another schedule (000000000000000c) than rank 0 (000000000000000b)"});
}

}  // namespace
}  // namespace sluice
