// sluice run through the command: what it prints, logs, traces and refuses. Times are looked at for their form only.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"
#include "tests/tools/small_training.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::vector<std::string> keys(const Json& object) {
    std::vector<std::string> found;
    for (const auto& item : object.items()) found.push_back(item.key());
    return found;  // nlohmann::json sorts them
}

struct RunVerb : testing::Test {
    TemporaryFolder folder;
    std::string scenario = write_scenario(folder, scenario_text({}));

    Finished run(const std::string& more, const std::string& of = "") const {
        return run_sluice("run " + (of.empty() ? scenario : of) + " --data " + readme() + " " + more);
    }
    std::string text_of(const std::string& name) const { return read_file(folder / name, 4_MiB); }
};

TEST_F(RunVerb, PrintsALinePerStep) {
    const Finished got = run("--steps 12");
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.err, "");
    const std::vector<std::string> lines = lines_of(got.out);
    ASSERT_EQ(lines.size(), 14U) << got.out;
    EXPECT_EQ(lines[0], "small-training: inline, 96 tokens x 1, sp 1 x pp 1 x dp 1, n 4, 12 steps");
    EXPECT_TRUE(std::regex_match(
        lines[1], std::regex(R"(  predicted step    [0-9.]+ [mu]s, floor [0-9.]+ [mu]s \(calibration tiny-cpu\))")))
        << lines[1];
    const std::regex step(
        R"(step ( |1)[0-9]/12  loss [0-9]\.[0-9]{4}  gradient [0-9.]+  [0-9]+ tokens/s  [0-9.]+ [mu]?s  )"
        R"(exposed copies [0-9.]+%  of floor [0-9]+%  peak [0-9.]+ [KM]iB device, [0-9.]+ [KM]iB host)");
    for (std::size_t i = 2; i < lines.size(); ++i) EXPECT_TRUE(std::regex_match(lines[i], step)) << lines[i];
    EXPECT_TRUE(lines[2].starts_with("step  1/12  loss 5.5")) << "ln 256 = 5.545: " << lines[2];
}

TEST_F(RunVerb, JsonAndLogHaveTheKeysOfTheContract) {
    const Finished got = run("--steps 3 --json --log " + (folder / "log"));
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_EQ(got.out, text_of("log"));
    const std::vector<std::string> lines = lines_of(got.out);
    ASSERT_EQ(lines.size(), 3U);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const Json step = Json::parse(lines[i]);
        EXPECT_EQ(keys(step),
                  (std::vector<std::string>{"device_arena_bytes", "device_beyond_arena_bytes", "device_peak_bytes",
                                            "exposed_copy_share", "floor_share", "gradient_norm", "host_arena_bytes",
                                            "host_peak_bytes", "learning_rate", "loss", "predicted_beyond_arena_bytes",
                                            "process_bytes", "step", "step_seconds", "tokens_per_second", "worst_exposed_copy_share"}));
        EXPECT_EQ(step["step"], i + 1);
        for (const auto& item : step.items()) EXPECT_TRUE(item.value().is_number()) << item.key();
        EXPECT_GT(step["step_seconds"], 0);
        EXPECT_NEAR(step["tokens_per_second"].get<double>() * step["step_seconds"].get<double>(), 96, 1e-6);
        EXPECT_GT(step["host_peak_bytes"], 0) << "all that can be is offloaded";
        EXPECT_LE(step["device_peak_bytes"], step["device_arena_bytes"]);
        EXPECT_LE(step["exposed_copy_share"], step["worst_exposed_copy_share"]);
    }
    // appended to
    ASSERT_EQ(run("--steps 2 --log " + (folder / "log")).code, 0);
    const std::vector<std::string> longer = lines_of(text_of("log"));
    ASSERT_EQ(longer.size(), 5U);
    EXPECT_EQ(Json::parse(longer[3])["loss"], Json::parse(lines[0])["loss"]) << "the same seed, the same bits";
}

TEST_F(RunVerb, LearningRateRisesAndFalls) {
    const Finished got = run("--steps 4 --json --warmup 2 --learning-rate 0.01");
    std::vector<double> rates;
    for (const std::string& line : lines_of(got.out)) rates.push_back(Json::parse(line)["learning_rate"]);
    ASSERT_EQ(rates.size(), 4U) << got.err;
    EXPECT_NEAR(rates[0], 0.005, 1e-6);
    EXPECT_NEAR(rates[1], 0.01, 1e-6);
    EXPECT_NEAR(rates[3], 0.001, 1e-6);
}

TEST_F(RunVerb, TracesAreOfOneSchedule) {
    const Finished got = run("--steps 2 --predicted " + (folder / "predicted") + " --trace " + (folder / "measured"));
    ASSERT_EQ(got.code, 0) << got.err;
    const Finished shown = run_sluice("show " + (folder / "measured") + " --json");
    ASSERT_EQ(shown.code, 0) << shown.err;
    const Json measured = Json::parse(shown.out);
    EXPECT_EQ(measured["producer"], "cpu runtime");
    EXPECT_EQ(measured["scenario"], "small-training");
    EXPECT_EQ(measured["calibration"], "tiny-cpu");
    const Json predicted = Json::parse(run_sluice("show " + (folder / "predicted") + " --json").out);
    EXPECT_EQ(predicted["schedule_fingerprint"], measured["schedule_fingerprint"]);
    EXPECT_EQ(predicted["ops"], measured["ops"]);

    const Finished compared = run_sluice("compare " + (folder / "predicted") + " " + (folder / "measured") + " --json");
    ASSERT_EQ(compared.code, 0) << compared.err;
    const Json comparison = Json::parse(compared.out);
    EXPECT_TRUE(comparison["only_predicted"].empty());
    EXPECT_TRUE(comparison["only_measured"].empty());
    EXPECT_TRUE(comparison["kernels"]) << "both have the kernels inside compute ops";
}

// What runs is planned at granularity layer, whatever the scenario says.
TEST_F(RunVerb, SimulateForetellsTheSameScheduleAtGranularityLayer) {
    const auto fingerprint = [&](const std::string& trace) {
        return Json::parse(run_sluice("show " + trace + " --json").out)["schedule_fingerprint"];
    };
    ASSERT_EQ(run_sluice("simulate " + scenario + " --trace " + (folder / "simulated")).code, 0);
    ASSERT_EQ(run("--steps 1 --predicted " + (folder / "predicted")).code, 0);
    EXPECT_EQ(fingerprint(folder / "simulated"), fingerprint(folder / "predicted"));

    const std::string coarse = write_scenario(folder, scenario_text({.granularity = "stage"}));
    ASSERT_EQ(run_sluice("simulate " + coarse + " --trace " + (folder / "coarse")).code, 0);
    ASSERT_EQ(run("--steps 1 --predicted " + (folder / "of_coarse"), coarse).code, 0);
    EXPECT_NE(fingerprint(folder / "coarse"), fingerprint(folder / "predicted"));
    EXPECT_EQ(fingerprint(folder / "of_coarse"), fingerprint(folder / "predicted"));
}

TEST_F(RunVerb, ShippedScenarioOffloadsAndLearns) {
    const Finished got = run("--steps 6 --json --learning-rate 3e-3 --warmup 1", "scenarios/tiny-cpu.yaml");
    ASSERT_EQ(got.code, 0) << got.err;
    const std::vector<std::string> lines = lines_of(got.out);
    ASSERT_EQ(lines.size(), 6U);
    const Json first = Json::parse(lines.front()), last = Json::parse(lines.back());
    EXPECT_GT(first["host_peak_bytes"], 1 << 20);
    EXPECT_LT(last["loss"].get<double>(), first["loss"].get<double>() - 0.5);
}

TEST_F(RunVerb, AScenarioThatDoesNotFitIsAnAnswer) {
    const std::string little = write_scenario(folder, scenario_text({.gpu_memory = "1 MiB"}));
    const Finished got = run("--steps 1", little);
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "");
    EXPECT_NE(got.out.find("does not fit"), std::string::npos) << got.out;
    const Finished json = run("--steps 1 --json", little);
    EXPECT_EQ(json.code, 1);
    const Json refusal = Json::parse(json.out);
    EXPECT_EQ(refusal["feasible"], false);
    EXPECT_FALSE(refusal["reasons"].empty());
}

TEST_F(RunVerb, WhatIsWrongIsOneLine) {
    write_file(folder / "short.txt", [](std::ostream& out) { out << "too little"; });
    write_file(folder / "cut.bin", [](std::ostream& out) { out << std::string(40, 'x'); });
    write_file(folder / "ids.txt", [](std::ostream& out) { out << std::string(1000, '\xff'); });
    const std::string bf16 = replaced(scenario_text({}), "weights: fp32, gradients", "weights: bf16, gradients");
    write_file(folder / "bf16.yaml", [&](std::ostream& out) { out << bf16; });
    write_file(folder / "small_vocabulary.yaml",
               [&](std::ostream& out) { out << replaced(scenario_text({}), "vocabulary: 256", "vocabulary: 128"); });
    const std::string f = folder.path().string() + "/";
    const std::string kNeedsFp32 =
        "this schedule cannot be run on the CPU: got bf16, expected precision fp32 throughout";
    const struct {
        std::string arguments, says;
        int code = 2;
    } cases[] = {
        {scenario + " --data " + f + "short.txt --steps 1",
         f + "short.txt: 10 tokens, expected at least 97 for one sequence of 96"},
        {scenario + " --data " + f + "missing.txt --steps 1", "missing.txt"},
        {scenario + " --data " + f + "cut.bin --steps 1", "cut.bin"},
        {f + "small_vocabulary.yaml --data " + f + "ids.txt --steps 1",
         f + "ids.txt: text is one token per byte and needs a vocabulary of 256 or more, got 128"},
        {f + "bf16.yaml --data README.md --steps 1", kNeedsFp32},
        {scenario + " --data README.md --steps 1 --log " + f + "nowhere/log",
         f + "nowhere/log: cannot be opened to append", 3},
        {scenario + " --data README.md --steps 1 --trace " + f + "nowhere/trace", "nowhere", 3},
    };
    for (const auto& c : cases) {
        const Finished got = run_sluice("run " + c.arguments);
        EXPECT_EQ(got.code, c.code) << c.arguments << "\n" << got.err;
        EXPECT_NE(got.err.find(c.says), std::string::npos) << c.arguments << "\n" << got.err;
        EXPECT_EQ(lines_of(got.err).size(), 1U) << got.err;
        EXPECT_EQ(got.out.find("step 1/"), std::string::npos);
        if (c.code == 2 && c.says != kNeedsFp32) {
            EXPECT_EQ(got.out, "") << "before anything is told";
        }
    }
}

TEST_F(RunVerb, NothingLeftToDo) {
    const std::string checkpoints = " --checkpoint " + (folder / "checkpoints");
    ASSERT_EQ(run("--steps 2" + checkpoints).code, 0);
    const Finished again = run("--steps 2 --resume --json" + checkpoints);
    EXPECT_EQ(again.code, 0);
    EXPECT_EQ(again.out, "");
    EXPECT_NE(again.err.find("step 2 is done already: nothing to run"), std::string::npos) << again.err;
}

}  // namespace
}  // namespace sluice
