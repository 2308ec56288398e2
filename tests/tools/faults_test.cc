// A run in which one op fails or never ends: the process ends soon, with exit code 3 and one line that names the op.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/derived_scenario.h"
#include "tests/tools/ranks_of_ops.h"
#include "tests/tools/run_sluice.h"
#include "tests/tools/small_training.h"

namespace sluice {
namespace {

constexpr int kSteps = 3;

struct FaultPoint {
    int step = 1;
    std::size_t op = 0;
    std::string rank;  // "0"
    std::string text(const char* kind) const { return fmt::format("{}:{}:{}", kind, step, op); }
    std::string named() const { return fmt::format("op {} (rank {}, ", op, rank); }
};

// Four ranks that send, copy and reduce.
struct Faults : testing::Test {
    TemporaryFolder folder;
    std::string scenario = write_scenario(folder, scenario_text({.sp = 2, .pp = 2}));

    std::vector<FaultPoint> random_points(std::uint32_t seed, std::size_t count) const {
        const Finished lowered = run_sluice({"lower", scenario});
        EXPECT_EQ(lowered.code, 0) << lowered.err;
        const std::vector<std::string> ranks = ranks_of_ops(lowered.out);
        EXPECT_GT(ranks.size(), 200U);
        std::mt19937 random(seed);
        std::vector<FaultPoint> points;
        for (std::size_t k = 0; k < count; ++k) {
            const std::size_t op = random() % ranks.size();
            points.push_back({static_cast<int>(random() % kSteps) + 1, op, ranks[op]});
        }
        return points;
    }

    struct Ended {
        Finished run;
        std::chrono::steady_clock::duration took{};
    };
    Ended run_with(const std::string& fault, const std::vector<std::string>& more = {}) const {
        std::vector<std::string> words{"run",     scenario, "--data", readme(), "--steps", std::to_string(kSteps),
                                       "--fault", fault};
        words.insert(words.end(), more.begin(), more.end());
        const auto begin = std::chrono::steady_clock::now();
        Finished run = run_sluice(words);
        return {std::move(run), std::chrono::steady_clock::now() - begin};
    }
};

void expect_ended(const Faults::Ended& ended, const FaultPoint& at, const std::string& why) {
    SCOPED_TRACE(testing::Message() << "step " << at.step << ", " << at.named() << "; stderr: " << ended.run.err);
    EXPECT_EQ(ended.run.code, 3);
    EXPECT_LT(ended.took, std::chrono::seconds(10));
    EXPECT_EQ(std::count(ended.run.err.begin(), ended.run.err.end(), '\n'), 1);
    EXPECT_NE(ended.run.err.find(at.named()), std::string::npos);
    EXPECT_NE(ended.run.err.find(why), std::string::npos);
    // Those before the fault are told, that of the fault is not.
    for (int step = 1; step <= kSteps; ++step)
        EXPECT_EQ(ended.run.out.find(fmt::format("step {}/{}", step, kSteps)) != std::string::npos, step < at.step);
}

TEST_F(Faults, AnOpThatFailsEndsTheRun) {
    for (const FaultPoint& at : random_points(20261201, 20)) {
        const Ended ended = run_with(at.text("throw"));
        expect_ended(ended, at, "fails on purpose (--fault)");
        EXPECT_TRUE(ended.run.err.starts_with(at.named())) << ended.run.err;
    }
}

TEST_F(Faults, AnOpThatNeverEndsEndsTheRun) {
    constexpr std::size_t kAtOnce = 5;
    const std::vector<FaultPoint> points = random_points(20261202, 10);
    std::vector<Ended> ends(points.size());
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kAtOnce; ++t)
        threads.emplace_back([&, t] {
            for (std::size_t k = t; k < points.size(); k += kAtOnce)
                ends[k] = run_with(points[k].text("stall"), {"--stall", "0.5"});
        });
    threads.clear();
    for (std::size_t k = 0; k < points.size(); ++k) expect_ended(ends[k], points[k], "no op of any rank has ended");
}

// With the watch, and without a fault.
TEST_F(Faults, AWatchedRunEndsWell) {
    const Finished run = run_sluice({"run", scenario, "--data", readme(), "--steps", "2", "--stall", "5"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
}

}  // namespace
}  // namespace sluice
