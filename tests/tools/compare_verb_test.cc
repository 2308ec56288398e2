// sluice compare of predictions under two calibrations of one schedule.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"
#include "tests/tools/temporary_folder.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// scenarios/tiny.yaml with memory-bound kernels at half the rate, and the schedule that tiny.yaml gets.
struct CompareVerb : testing::Test {
    TemporaryFolder folder;
    std::string schedule = folder / "tiny.schedule";
    std::string predicted = folder / "predicted.trace", measured = folder / "measured.trace";

    void SetUp() override {
        const auto calibration = std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios" / "calibrations" / "tiny.yaml";
        std::filesystem::create_directory(folder.path() / "calibrations");
        write_file(folder.path() / "calibrations" / "slow.yaml", [&](std::ostream& out) {
            out << replaced(read_file(calibration, 1_MiB), "rate: 400 GB/s", "rate: 200 GB/s");
        });
        const std::string slow =
            write_scenario(folder, replaced(tiny_text(), "calibration: tiny", "calibration: slow"));
        ASSERT_EQ(run_sluice("lower scenarios/tiny.yaml -o " + schedule).code, 0);
        const std::string of = " --schedule " + schedule + " --trace ";
        ASSERT_EQ(run_sluice("simulate scenarios/tiny.yaml" + of + predicted).code, 0);
        ASSERT_EQ(run_sluice("simulate " + slow + of + measured).code, 0);
    }
};

TEST_F(CompareVerb, ErrorSharesSumToTheErrorOfTheStep) {
    const Finished got = run_sluice("compare " + predicted + " " + measured + " --json --schedule " + schedule);
    ASSERT_EQ(got.code, 0) << got.err;
    const Json json = Json::parse(got.out);
    std::int64_t sum = 0;
    double memory_bound = 0;
    for (const Json& share : json.at("error_shares")) {
        sum += share.at("error_ns").get<std::int64_t>();
        if (share.at("class") != "gemm" && !share.at("class").get<std::string>().starts_with("attention"))
            memory_bound += share.at("error_ns").get<double>();
    }
    const double error = 1e9 * json.at("step").at("error_seconds").get<double>();
    EXPECT_LT(error, -1e6);
    EXPECT_NEAR(static_cast<double>(sum), error, 1);
    EXPECT_GT(memory_bound / error, 0.9);
    EXPECT_TRUE(json.at("only_predicted").empty());
}

TEST_F(CompareVerb, TextNamesEveryPart) {
    const Finished got = run_sluice("compare " + predicted + " " + measured + " " + predicted + " --ops 3");
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.err, "");
    for (const char* part :
         {"error of the step by class", "2 of them", "a mean compute lane", "lanes, mean busy time",
          "op classes, all ranks", "stage 1", "subsequence 7", "node 0", "ops with the largest errors"})
        EXPECT_NE(got.out.find(part), std::string::npos) << part << "\n" << got.out;
}

TEST_F(CompareVerb, TracesOfDifferentSchedulesAreRefused) {
    const Finished got = run_sluice("compare " + predicted + " tests/golden/traces/example.sltrace");
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.out, "");
    EXPECT_NE(got.err.find("expected two traces of one schedule"), std::string::npos) << got.err;
}

}  // namespace
}  // namespace sluice
