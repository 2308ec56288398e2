// SIGKILL at any point of writing leaves the old or the new checkpoint, never half of one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "runtime/checkpoint/checkpoint_folder.h"
#include "tests/runtime/checkpoint/small_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace sluice {
namespace {

// Writes checkpoints for as long as it lives: step after step, every third one twice (a replacement).
[[noreturn]] void write_for_ever(const std::filesystem::path& folder, std::int64_t step) {
    try {
        for (;; ++step) {
            for (int times = step % 3 == 0 ? 2 : 1; times > 0; --times)
                write_checkpoint(folder, small_checkpoint(step), {.keep = 2});
        }
    } catch (...) {
    }
    ::_exit(1);
}

// Whether the child was still writing when it was killed.
bool run_and_kill(const std::filesystem::path& folder, std::int64_t step, std::chrono::microseconds after) {
    const ::pid_t child = ::fork();
    if (child == 0) write_for_ever(folder, step);
    std::this_thread::sleep_for(after);
    ::kill(child, SIGKILL);
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

TEST(KilledWriter, LeavesTheOldOrTheNewCheckpoint) {
    const TemporaryFolder folder;
    write_checkpoint(folder.path(), small_checkpoint(1), {.keep = 2});
    std::mt19937 random(1);
    std::int64_t step = 1;
    int interrupted = 0;
    for (int kills = 0; kills < 50; ++kills) {
        ASSERT_TRUE(run_and_kill(folder.path(), step, std::chrono::microseconds(random() % 50000)));
        const LatestCheckpoint latest = latest_checkpoint(folder.path());
        ASSERT_TRUE(latest.path) << "after kill " << kills;
        ASSERT_TRUE(latest.refused.empty()) << latest.refused[0];
        ASSERT_GE(latest.manifest.state.step, step);
        step = latest.manifest.state.step;
        expect_small_checkpoint(*latest.path, step);
        const auto names = folder.names();
        EXPECT_LE(names.size(), 4U);  // two kept, one not yet removed, one unfinished
        for (const std::string& name : names) interrupted += name.ends_with(".tmp") ? 1 : 0;
        if (HasFailure()) return;
    }
    EXPECT_GT(interrupted, 0) << "no writer was killed in the middle: the test shows nothing";
    write_checkpoint(folder.path(), small_checkpoint(step + 1), {.keep = 2});
    EXPECT_LE(folder.names().size(), 2U);
}

// What another process sees at any moment is what a kill at that moment would leave. Kills at random would seldom hit
// the moment between two names.
TEST(KilledWriter, ReplacesInOneMoment) {
    const TemporaryFolder folder;
    const auto path = write_checkpoint(folder.path(), small_checkpoint(7), {.keep = 1});
    const ::pid_t child = ::fork();
    if (child == 0)
        for (;;) write_checkpoint(folder.path(), small_checkpoint(7), {.keep = 1});
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    std::int64_t looks = 0;
    for (; std::chrono::steady_clock::now() < end; ++looks) {
        const auto damage = checkpoint_damage(path, CheckpointCheck::kSizes);
        EXPECT_FALSE(damage) << *damage;
        if (damage) break;
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_GT(looks, 0);
    expect_small_checkpoint(path, 7);
}

// A second writer is told so; when the first is gone, however it ended, the folder is free.
TEST(KilledWriter, HoldsTheFolderWhileItLives) {
    const TemporaryFolder folder;
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const ::pid_t child = ::fork();
    if (child == 0) {
        CheckpointContent content = small_checkpoint(1);
        content.model[0].fill = [&](Bytes, std::span<std::byte>) {
            (void)!::write(ready[1], "x", 1);
            ::pause();
        };
        write_checkpoint(folder.path(), content, {});
        ::_exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    try {
        write_checkpoint(folder.path(), small_checkpoint(2), {});
        ADD_FAILURE() << "expected an EnvironmentError";
    } catch (const std::exception& error) {
        EXPECT_EQ(error.what(), folder.path().string() + ": another process is writing checkpoints here");
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ready[0]), ::close(ready[1]);
    expect_small_checkpoint(write_checkpoint(folder.path(), small_checkpoint(2), {}), 2);
    EXPECT_EQ(folder.names(), std::vector<std::string>{"step-00000002"});
}

}  // namespace
}  // namespace sluice
