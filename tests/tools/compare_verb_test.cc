// sluice compare of predictions under two calibrations of one schedule.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/run_sluice.h"
#include "tests/tools/two_calibrations.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

using CompareVerb = TwoCalibrations;

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
