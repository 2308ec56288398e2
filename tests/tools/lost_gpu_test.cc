// Runs on two GPUs that lose a process, or an op, at random points: all that is left ends soon with exit code 3 and one
// line, and leaves neither a process nor GPU memory behind. Needs two GPUs.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/process_group.h"
#include "tests/tools/two_gpu_job.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLimit{10};  // what the product promises
constexpr std::chrono::seconds kStart{60};  // until the first steps have been told
constexpr int kRounds = 20, kAtOnce = 3;
constexpr int kGpus[] = {0, 1};

int gpus() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Of all processes.
std::int64_t bytes_in_use(int gpu) {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(cudaSetDevice(gpu), cudaSuccess);
    EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
    return static_cast<std::int64_t>(total - free);
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string one_line(const std::string& text) { return text.substr(0, std::min<std::size_t>(text.find('\n'), 240)); }

// How long rounds took from what went wrong to the end of the last process, and the worst of them.
class Times {
public:
    void add(const std::string& round, Clock::duration time, const std::string& errors) {
        const std::lock_guard lock(mutex_);
        fmt::print("{}: ended after {:.2f} s: {}\n", round, seconds(time), one_line(errors));
        std::fflush(stdout);
        worst_ = std::max(worst_, time);
    }
    void tell() const { fmt::print("the slowest end took {:.2f} s\n", seconds(worst_)); }

private:
    std::mutex mutex_;
    Clock::duration worst_{};
};

class LostGpu : public testing::Test {
protected:
    void SetUp() override {
        if (gpus() < 2) GTEST_SKIP() << "needs two GPUs";
        scenarios = std::make_unique<TwoGpuScenarios>();
        for (const TwoGpuScenario& scenario : scenarios->all()) expect_to_run(scenario);
        for (const int gpu : kGpus) before_.push_back(bytes_in_use(gpu));
    }

    void TearDown() override {
        if (IsSkipped() || before_.empty()) return;
        times.tell();
        for (const int gpu : kGpus) {
            const std::int64_t before = before_[static_cast<std::size_t>(gpu)];
            constexpr std::int64_t kSlack = 16 << 20;
            for (const auto until = Clock::now() + std::chrono::seconds(5);
                 bytes_in_use(gpu) > before + kSlack && Clock::now() < until;)
                std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the driver still cleans up
            EXPECT_LE(bytes_in_use(gpu), before + kSlack) << "GPU " << gpu;
            fmt::print("GPU {}: {} bytes in use before, {} after\n", gpu, before, bytes_in_use(gpu));
        }
    }

    // Undisturbed.
    void expect_to_run(const TwoGpuScenario& scenario) const {
        ASSERT_GT(scenario.ranks.size(), 50U);
        ProcessGroup group;
        group.start(scenarios->run(scenario, 2, {"--gpus", "2"}), {});
        const auto ended = group.wait(0, Clock::now() + kStart);
        ASSERT_TRUE(ended) << scenario.name;
        ASSERT_EQ(ended->code, 0) << scenario.name << ": " << ended->errors;
    }

    // Each with a number, some at the same time.
    static void run_rounds(const std::function<void(int)>& round) {
        std::atomic<int> next{0};
        std::vector<std::jthread> threads;
        for (int t = 0; t < kAtOnce; ++t)
            threads.emplace_back([&] {
                for (int number = next++; number < kRounds; number = next++) round(number);
            });
    }

    // Reads all that the processes print meanwhile.
    static bool wait_for_lines(ProcessGroup& group, std::size_t processes, std::size_t lines, Clock::time_point until) {
        for (; Clock::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
            for (std::size_t p = 1; p < processes; ++p) group.lines(p);
            if (group.lines(0) >= lines) return true;
        }
        return false;
    }

    // Returns what it said, and adds how long it took since `begin`.
    std::string expect_end(ProcessGroup& group, std::size_t process, Clock::time_point begin,
                           const std::string& round) {
        const auto ended = group.wait(process, begin + kLimit);
        const auto took = Clock::now() - begin;
        if (!ended) {
            ADD_FAILURE() << round << ": still runs after " << seconds(took) << " s";
            return {};
        }
        times.add(round, took, ended->errors);
        EXPECT_EQ(ended->code, 3) << round << ", signal " << ended->signal << ": " << ended->errors;
        EXPECT_EQ(std::count(ended->errors.begin(), ended->errors.end(), '\n'), 1) << round << ": " << ended->errors;
        EXPECT_TRUE(group.left_nothing(process)) << round;
        return ended->errors;
    }

    std::unique_ptr<TwoGpuScenarios> scenarios;
    Times times;

private:
    std::vector<std::int64_t> before_;  // by GPU
};

TEST_F(LostGpu, AKilledProcessEndsTheOther) {
    run_rounds([&](int number) {
        std::mt19937 random(20261203U + static_cast<unsigned>(number));
        const TwoGpuScenario& scenario = scenarios->of(static_cast<std::size_t>(number));
        const std::size_t victim = random() % 2, lines = 1 + random() % 3;
        const auto later = std::chrono::microseconds(random() % 1'000'000);
        const std::string round = fmt::format("round {}, {}, rank {} is killed", number, scenario.name, victim);
        ProcessGroup group;
        for (const int rank : {0, 1})
            group.start(scenarios->run(scenario, 1'000'000,
                                       {"--rendezvous", "file:" + scenarios->file(fmt::format("meeting.{}", number))}),
                        {fmt::format("RANK={}", rank), "WORLD_SIZE=2", fmt::format("LOCAL_RANK={}", rank)});
        if (!wait_for_lines(group, 2, lines, Clock::now() + kStart)) {
            ADD_FAILURE() << round << ": no step was told";
            return;
        }
        wait_for_lines(group, 2, SIZE_MAX, Clock::now() + later);
        group.signal(victim, SIGKILL);
        const auto begin = Clock::now();
        const std::string said = expect_end(group, 1 - victim, begin, round);
        // The connection ends at once; a call of NCCL may fail sooner still.
        EXPECT_TRUE(said.find(fmt::format("rank {} is lost", victim)) != std::string::npos ||
                    said.find("NCCL") != std::string::npos)
            << round << ": " << said;
        const auto dead = group.wait(victim, begin + kLimit);
        ASSERT_TRUE(dead) << round;
        EXPECT_EQ(dead->signal, SIGKILL) << round << ": it had ended before: " << dead->errors;
        EXPECT_TRUE(group.left_nothing(victim)) << round;
    });
}

// Both ranks are threads of one process.
TEST_F(LostGpu, AnOpThatFailsOrNeverEndsEndsTheProcess) {
    constexpr int kSteps = 20;
    run_rounds([&](int number) {
        std::mt19937 random(20261204U + static_cast<unsigned>(number));
        const TwoGpuScenario& scenario = scenarios->of(static_cast<std::size_t>(number / 2));
        const bool stall = number % 2 == 1;
        const std::size_t step = 2 + random() % (kSteps - 1), op = random() % scenario.ranks.size();
        const std::string fault = fmt::format("{}:{}:{}", stall ? "stall" : "throw", step, op);
        const std::string round = fmt::format("round {}, {}, {}", number, scenario.name, fault);
        ProcessGroup group;
        // The watch is not to take the first step, in which libraries load, for a stuck one.
        group.start(scenarios->run(scenario, kSteps, {"--gpus", "2", "--fault", fault, "--stall", "2"}), {});
        if (!wait_for_lines(group, 1, step - 1, Clock::now() + kStart)) {
            ADD_FAILURE() << round << ": the step before was not told";
            return;
        }
        const std::string said = expect_end(group, 0, Clock::now(), round);
        EXPECT_EQ(group.lines(0), step - 1) << round;
        EXPECT_NE(said.find(fmt::format("op {} (rank {}, ", op, scenario.ranks[op])), std::string::npos)
            << round << ": " << said;
        EXPECT_NE(said.find(stall ? "no op of any rank has ended" : "fails on purpose (--fault)"), std::string::npos)
            << round << ": " << said;
    });
}

}  // namespace
}  // namespace sluice
