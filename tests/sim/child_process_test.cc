#include "sim/child_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <new>
#include <stdexcept>
#include <string>

#include "base/error.h"

namespace sluice {
namespace {

template <class Error>
std::string message_of(const std::function<void()>& work, const std::function<void()>& poll = {}) {
    try {
        run_in_child("test", work, poll);
    } catch (const Error& e) {
        return e.what();
    }
    return "nothing thrown";
}

TEST(ChildProcess, SharesNothingButSharedMemory) {
    const SharedMemory memory(sizeof(int));
    int* shared = static_cast<int*>(memory.data());
    int own = 1;
    EXPECT_EQ(*shared, 0);
    run_in_child("test", [&] { *shared = own = 2; }, {});
    EXPECT_EQ(*shared, 2);
    EXPECT_EQ(own, 1);
}

TEST(ChildProcess, SeveralAtATime) {
    struct Shared {
        std::atomic<int> running, most, done;
    };
    const SharedMemory memory(sizeof(Shared));
    Shared& shared = *new (memory.data()) Shared{};
    const auto work = [&] {
        const int now = ++shared.running;
        for (int most = shared.most; most < now && !shared.most.compare_exchange_weak(most, now);) {
        }
        ::usleep(20000);
        --shared.running, ++shared.done;
    };
    run_in_children("test", std::vector<std::function<void()>>(7, work), 3);
    EXPECT_EQ(shared.done, 7);
    EXPECT_LE(shared.most, 3);
    EXPECT_GT(shared.most, 1);
}

TEST(ChildProcess, TheFirstFailureOfSeveralIsThrown) {
    const auto fail = [](const char* text) { return [text] { throw std::runtime_error(text); }; };
    try {
        run_in_children("test", {[] {}, fail("second"), fail("third")}, 0);
        ADD_FAILURE() << "nothing thrown";
    } catch (const EnvironmentError& e) {
        EXPECT_STREQ(e.what(), "test: second");
    }
}

TEST(ChildProcess, PollsWhileItRuns) {
    const SharedMemory memory(sizeof(std::atomic<bool>));
    auto& go = *new (memory.data()) std::atomic<bool>(false);
    const auto work = [&] {
        while (!go) ::usleep(1000);
    };
    run_in_child("test", work, [&] { go = true; });  // ends only because it is polled
    EXPECT_TRUE(go);
}

TEST(ChildProcess, DeathBySignalIsNamed) {
    const std::string expected = "test: the child process died of signal 9 (Killed)";
    EXPECT_EQ(message_of<EnvironmentError>([] { ::raise(SIGKILL); }), expected);
    EXPECT_EQ(message_of<EnvironmentError>([] { ::raise(SIGKILL); }, [] {}), expected);
}

TEST(ChildProcess, ExitCodeIsNamed) {
    EXPECT_EQ(message_of<EnvironmentError>([] { ::_exit(7); }), "test: the child process ended with exit code 7");
}

TEST(ChildProcess, ExceptionsCrossWithTheirText) {
    EXPECT_EQ(message_of<EnvironmentError>([] { throw std::runtime_error("no room"); }), "test: no room");
    EXPECT_EQ(message_of<EnvironmentError>([] { throw 3; }), "test: an exception of unknown type");
    EXPECT_EQ(message_of<InternalError>([] { throw InternalError("a bug"); }), "a bug");
}

TEST(ChildProcess, LongTextIsCutNotLost) {
    const std::string text(4000, 'x');
    const std::string got = message_of<EnvironmentError>([&] { throw std::runtime_error(text); });
    EXPECT_EQ(got, "test: " + text.substr(0, 511));
}

TEST(ChildProcess, PollThatThrowsEndsTheChild) {
    const auto forever = [] {
        while (true) ::pause();
    };
    const auto refuse = [] { throw std::runtime_error("enough"); };
    EXPECT_EQ(message_of<std::runtime_error>(forever, refuse), "enough");
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no child is left, not even a dead one
    EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace sluice
