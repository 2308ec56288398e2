// sluice judge and sluice fit, with a prediction in the place of the measurement.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"
#include "tests/tools/two_calibrations.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using JudgeVerb = TwoCalibrations;
using FitVerb = TwoCalibrations;

void write_text(const fs::path& path, const std::string& text) {
    write_file(path, [&](std::ostream& out) { out << text; });
}

TEST_F(JudgeVerb, SaysNoWithOneWhenSomethingIsOff) {
    const std::string both = "judge " + predicted + " " + measured;
    const Finished good = run_sluice(both);
    EXPECT_EQ(good.code, 0) << good.out;
    EXPECT_NE(good.out.find("pass  step"), std::string::npos) << good.out;
    EXPECT_NE(good.out.find("pass  peak of node 1"), std::string::npos) << good.out;
    const Finished bad = run_sluice(both + " --step 1% --class norm=10%,gemm=10%");
    EXPECT_EQ(bad.code, 1);
    EXPECT_EQ(bad.err, "");
    EXPECT_NE(bad.out.find("FAIL  step"), std::string::npos) << bad.out;
    EXPECT_NE(bad.out.find("FAIL  class norm"), std::string::npos) << bad.out;
    EXPECT_NE(bad.out.find("pass  class gemm"), std::string::npos) << bad.out;
    const Json json = Json::parse(run_sluice(both + " --step 1% --json").out);
    EXPECT_EQ(json.at("passed"), false);
    EXPECT_EQ(json.at("cases").at(0).at("verdicts").at(1).at("what"), "step");
}

// A recorded case is predicted anew, under the scenario in its folder, and held against the recorded steps.
TEST_F(JudgeVerb, PredictsRecordedCasesAnew) {
    const fs::path cases = folder.path() / "cases";
    for (const char* name : {"right", "wrong"}) {
        fs::create_directories(cases / name);
        fs::copy(schedule, cases / name / "schedule");
        fs::copy(measured, cases / name / "measured-1.trace");
    }
    fs::create_directory(cases / "right" / "calibrations");
    fs::copy(folder.path() / "calibrations" / "slow.yaml", cases / "right" / "calibrations" / "slow.yaml");
    fs::copy(slow_scenario, cases / "right" / "scenario.yaml");
    write_text(cases / "right" / "tolerances", "step 0.1%\nclasses 0.1%\n");
    write_text(cases / "wrong" / "scenario.yaml", tiny_text());
    write_text(cases / "wrong" / "tolerances", "step 0.1%  # hopeless\n");

    const Finished right = run_sluice("judge " + (cases / "right").string());
    EXPECT_EQ(right.code, 0) << right.out << right.err;
    const Finished all = run_sluice("judge " + cases.string());
    EXPECT_EQ(all.code, 1) << all.err;
    EXPECT_NE(all.out.find("right: pass"), std::string::npos) << all.out;
    EXPECT_NE(all.out.find("wrong: FAIL"), std::string::npos) << all.out;
    EXPECT_NE(all.out.find("2 cases, 1 failed"), std::string::npos) << all.out;
    EXPECT_EQ(run_sluice("judge " + cases.string() + " --step 50%").code, 0) << "flags go before the case's file";
}

// The calibration fitted to what was "measured" predicts it; the one before did not.
TEST_F(FitVerb, ClosesTheLoop) {
    const std::string fitted = folder / "calibrations/fitted.yaml";
    const Finished got = run_sluice("fit scenarios/tiny.yaml " + measured + " " + schedule +
                                    " --name fitted --date 2026-11-29 -o " + fitted);
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_NE(got.out.find("400 GB/s -> 200 GB/s"), std::string::npos) << got.out;
    const std::string text = read_file(fitted, 1_MiB);
    EXPECT_NE(text.find("measured 2026-11-29: 1 step of derived by simgrid replay"), std::string::npos) << text;
    EXPECT_EQ(text.find(folder.path().string()), std::string::npos) << "no paths of this machine";

    write_text(folder.path() / "again.yaml", replaced(tiny_text(), "calibration: tiny", "calibration: fitted"));
    const std::string anew = folder / "anew.trace";
    const Finished predicted_anew =
        run_sluice("simulate " + (folder / "again.yaml") + " --schedule " + schedule + " --trace " + anew);
    ASSERT_EQ(predicted_anew.code, 0) << predicted_anew.err;
    const std::string strict = " " + measured + " --step 0.5% --classes 1%";
    EXPECT_EQ(run_sluice("judge " + anew + strict).code, 0) << run_sluice("judge " + anew + strict).out;
    EXPECT_EQ(run_sluice("judge " + predicted + strict).code, 1);
}

TEST_F(FitVerb, WithoutAnOutputOnlyReports) {
    const auto before = folder.names();
    const Json json = Json::parse(run_sluice("fit scenarios/tiny.yaml --json " + schedule + " " + measured).out);
    EXPECT_EQ(folder.names(), before);
    EXPECT_EQ(json.at("output"), nullptr);
    EXPECT_EQ(json.at("name"), "tiny-fitted");
    EXPECT_EQ(json.at("parts").at(0).at("what"), "gemm");
    EXPECT_EQ(run_sluice("fit scenarios/tiny.yaml " + schedule + " " + measured + " -o -").out.substr(0, 8),
              "# Fitted");
}

}  // namespace
}  // namespace sluice
