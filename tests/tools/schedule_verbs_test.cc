// sluice lower, check and show on schedules.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "base/file.h"
#include "tests/support/golden_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

TEST(LowerVerb, TextAndBinaryAreOneSchedule) {
    const TemporaryFolder folder;
    for (const std::string name : {"x.txt", "x.schedule"}) {
        const Finished got = run_sluice("lower scenarios/tiny.yaml -o " + (folder / name));
        EXPECT_EQ(got.code, 0);
        EXPECT_EQ(got.out + got.err, "") << name;
    }
    const std::string text = read_file(folder / "x.txt", 64_MiB);
    EXPECT_TRUE(text.starts_with("sluice-schedule 1\n"));
    EXPECT_EQ(run_sluice("lower scenarios/tiny.yaml").out, text) << "stdout by default";
    EXPECT_EQ(run_sluice("lower scenarios/tiny.yaml -o -").out, text);
    EXPECT_EQ(run_sluice("show " + (folder / "x.txt")).out, text);
    EXPECT_EQ(run_sluice("show " + (folder / "x.schedule")).out, text);
    EXPECT_LT(fs::file_size(folder / "x.schedule"), fs::file_size(folder / "x.txt"));
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"x.schedule", "x.txt"}));
}

TEST(LowerVerb, JsonIsThePlanThatSimulatePrints) {
    const Json plan = Json::parse(run_sluice("lower scenarios/tiny.yaml --json").out);
    const Json prediction = Json::parse(run_sluice("simulate scenarios/tiny.yaml --json").out);
    for (const char* key : {"feasible", "reasons", "notes", "ops", "plan"})
        EXPECT_EQ(plan.at(key), prediction.at(key)) << key;
}

TEST(CheckVerb, AcceptsWhatLowerWrites) {
    const TemporaryFolder folder;
    for (const std::string name : {"x.txt", "x.schedule"}) {
        const std::string path = folder / name;
        ASSERT_EQ(run_sluice("lower scenarios/tiny.yaml -o " + path).code, 0);
        const Finished got = run_sluice("check " + path);
        EXPECT_EQ(got.code, 0);
        EXPECT_TRUE(got.out.starts_with(path + ": valid, 4 ranks, ")) << got.out;
        EXPECT_EQ(got.err, "");
    }
}

// One broken schedule per rule, each file named after it.
TEST(CheckVerb, NamesTheRuleThatABrokenScheduleViolates) {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(golden_path("invalid"))) {
        if (entry.path().extension() != ".txt") continue;
        ++count;
        const std::string path = entry.path().string(), rule = entry.path().stem().string();
        const Finished as_json = run_sluice("check --json " + path);
        EXPECT_EQ(as_json.code, 1) << path;
        const Json json = Json::parse(as_json.out);
        EXPECT_EQ(json.at("valid"), false) << path;
        std::set<std::string> rules;
        for (const Json& d : json.at("diagnostics")) {
            rules.insert(d.at("rule").get<std::string>());
            EXPECT_NE(d.at("message"), "") << path;
        }
        EXPECT_TRUE(rules.contains(rule)) << path;
    }
    EXPECT_GE(count, 20U);
}

TEST(CheckVerb, PrintsEveryProblemOnALineOfItsOwn) {
    const Finished got = run_sluice("check tests/golden/invalid/cycle.txt");
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "");
    EXPECT_NE(got.out.find("tests/golden/invalid/cycle.txt: cycle: "), std::string::npos) << got.out;
    EXPECT_TRUE(got.out.ends_with("tests/golden/invalid/cycle.txt: 1 problem\n")) << got.out;
}

TEST(CheckVerb, JsonOfAValidSchedule) {
    const Finished got = run_sluice("check --json tests/golden/schedules/two_stages.txt");
    EXPECT_EQ(got.code, 0);
    const Json json = Json::parse(got.out);
    EXPECT_EQ(json.at("valid"), true);
    EXPECT_EQ(json.at("ranks"), 2);
    EXPECT_EQ(json.at("diagnostics"), Json::array());
}

TEST(ShowVerb, GridOfASchedule) {
    const Finished got = run_sluice("show --grid tests/golden/schedules/four_stages_eight_subsequences.txt");
    EXPECT_EQ(got.code, 0);
    EXPECT_EQ(got.err, "");
    expect_golden("grids/four_stages_eight_subsequences.txt", got.out);
    const Finished cut =
        run_sluice("show --grid --columns 10 --ranks 2 tests/golden/schedules/four_stages_eight_subsequences.txt");
    EXPECT_EQ(cut.code, 0);
    EXPECT_NE(cut.out.find("2 of 4 ranks shown"), std::string::npos) << cut.out;
    EXPECT_EQ(cut.out.find("r2 compute"), std::string::npos) << cut.out;
}

TEST(ShowVerb, GridMarksProblems) {
    const Finished broken = run_sluice("show --grid tests/golden/invalid/overlap.txt");
    EXPECT_EQ(broken.code, 0) << "show shows; check judges";
    EXPECT_NE(broken.out.find("overlap: "), std::string::npos) << broken.out;
}

TEST(ShowVerb, JsonCountsOpsByLane) {
    const Json json = Json::parse(run_sluice("show --json tests/golden/schedules/offload.txt").out);
    const std::string text = read_file(fs::path(SLUICE_SOURCE_DIR) / "tests/golden/schedules/offload.txt", 1_MiB);
    std::size_t ops = 0, copies_out = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (!line.starts_with("op ")) continue;
        ++ops;
        copies_out += line.find(" copy_out ") != std::string::npos ? 1U : 0U;
    }
    EXPECT_EQ(json.at("ops"), ops);
    EXPECT_EQ(json.at("ops_by_lane").at("copy_out"), copies_out);
    EXPECT_GT(copies_out, 0U);
    std::size_t sum = 0;
    for (const auto& lane : json.at("ops_by_lane").items()) sum += lane.value().get<std::size_t>();
    EXPECT_EQ(sum, ops);
}

}  // namespace
}  // namespace sluice
