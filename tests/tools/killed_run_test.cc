// Runs that are killed and go on: not a bit of difference, in the log and in the last checkpoint.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"
#include "tests/tools/running_sluice.h"
#include "tests/tools/small_training.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
constexpr int kSteps = 12;

struct KilledRun : testing::Test {
    TemporaryFolder folder;
    std::string scenario = write_scenario(folder, scenario_text({.pp = 2}));

    // Into folders and files that end in `name`.
    std::vector<std::string> arguments(const std::string& name, bool resume) const {
        std::vector<std::string> words{"run",
                                       scenario,
                                       "--data",
                                       readme(),
                                       "--steps",
                                       std::to_string(kSteps),
                                       "--json",
                                       "--every",
                                       "2",
                                       "--shuffle",
                                       "--seed",
                                       "5",
                                       "--learning-rate",
                                       "0.01",
                                       "--checkpoint",
                                       folder / ("checkpoints-" + name),
                                       "--log",
                                       folder / ("log-" + name)};
        if (resume) words.push_back("--resume");
        return words;
    }

    // Of every step that was logged; twice where it ran twice.
    std::multimap<int, std::string> losses(const std::string& name) const {
        std::istringstream in(read_file(folder / ("log-" + name), 4_MiB));
        std::multimap<int, std::string> found;
        for (std::string line; std::getline(in, line);) {
            const Json step = Json::parse(line);
            found.emplace(step["step"], step["loss"].dump() + " " + step["gradient_norm"].dump());
        }
        return found;
    }

    std::map<std::string, std::string> files(const std::string& name) const {
        std::map<std::string, std::string> found;
        const std::filesystem::path last = folder / ("checkpoints-" + name + "/step-000000" + std::to_string(kSteps));
        for (const auto& entry : std::filesystem::directory_iterator(last))
            found[entry.path().filename().string()] = read_file(entry.path(), 64_MiB);
        return found;
    }
};

TEST_F(KilledRun, GoesOnWithTheSameBits) {
    ASSERT_EQ(run_sluice(arguments("whole", false)).code, 0);
    const std::multimap<int, std::string> expected = losses("whole");
    ASSERT_EQ(expected.size(), static_cast<std::size_t>(kSteps));
    const std::map<std::string, std::string> last = files("whole");
    ASSERT_EQ(last.count("optimizer-00002-of-00002.safetensors"), 1U);

    std::mt19937 random(20261129);
    for (int kill = 0; kill < 20; ++kill) {
        const std::string name = std::to_string(kill);
        SCOPED_TRACE("kill " + name);
        {
            RunningSluice running(arguments(name, false));
            const auto lines = random() % (kSteps - 1);  // 0: while it starts
            for (std::size_t k = 0; k < lines; ++k) ASSERT_TRUE(running.line());
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
            running.kill();
        }
        const Finished resumed = run_sluice(arguments(name, true));
        ASSERT_EQ(resumed.code, 0) << resumed.err;
        ASSERT_EQ(files(name), last);
        std::set<int> seen;
        for (const auto& [step, text] : losses(name)) {
            EXPECT_EQ(text, expected.find(step)->second) << "step " << step;
            seen.insert(step);
        }
        EXPECT_EQ(seen.size(), static_cast<std::size_t>(kSteps)) << "no step is missing";
    }
}

// A newest checkpoint that is cut is told of and the one before used; steps between them run again.
TEST_F(KilledRun, ACutCheckpointIsNotUsed) {
    ASSERT_EQ(run_sluice(arguments("whole", false)).code, 0);
    ASSERT_EQ(run_sluice(arguments("cut", false)).code, 0);
    const std::string newest = folder / ("checkpoints-cut/step-000000" + std::to_string(kSteps));
    const std::string file = newest + "/optimizer-00001-of-00002.safetensors";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
    const Finished resumed = run_sluice(arguments("cut", true));
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("not resumed from: " + file), std::string::npos) << resumed.err;
    EXPECT_NE(resumed.err.find("step-00000010, after step 10"), std::string::npos) << resumed.err;
    EXPECT_EQ(files("cut"), files("whole")) << "step 12 is written again, whole";
}

// Else a later --resume would take a checkpoint of the other run.
TEST_F(KilledRun, ANewRunDoesNotWriteAmongCheckpointsOfAnother) {
    ASSERT_EQ(run_sluice(arguments("old", false)).code, 0);
    const std::map<std::string, std::string> before = files("old");
    const Finished got = run_sluice(arguments("old", false));
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.err,
              (folder / "checkpoints-old") +
                  ": has checkpoints up to step 12 of an earlier run, expected a folder without, or --resume\n");
    EXPECT_EQ(files("old"), before);
}

}  // namespace
}  // namespace sluice
