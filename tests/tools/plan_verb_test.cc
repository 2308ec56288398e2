// sluice plan, and what simulate does with a scenario that leaves choices open.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/golden_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

std::string open_text() {
    return replaced(replaced(replaced(tiny_text(), "degree: 2", "degree: auto"), "pp: 2", "pp: auto"), "n: 8",
                    "n: auto");
}

TEST(PlanVerb, ChoosesAndSaysWhy) {
    const TemporaryFolder folder;
    const std::string scenario = write_scenario(folder, open_text());
    const Finished json = run_sluice({"plan", scenario, "--json"});
    ASSERT_EQ(json.code, 0) << json.err;
    EXPECT_EQ(json.err, "");
    const Json plan = Json::parse(json.out);
    ASSERT_TRUE(plan["feasible"].get<bool>());
    const Json& candidates = plan["candidates"];
    EXPECT_EQ(candidates[0]["verdict"], "finalist");
    for (const Json& c : candidates) {
        EXPECT_EQ(c["sp"].get<int>() * c["pp"].get<int>(), 4);
        EXPECT_NE(c["reason"], "");
        if (c["verdict"] == "finalist") {
            EXPECT_LE(candidates[0]["replayed_seconds"].get<double>(), c["replayed_seconds"].get<double>());
        }
    }
    const Finished text = run_sluice({"plan", scenario, "--explain"});
    ASSERT_EQ(text.code, 0);
    EXPECT_NE(text.out.find("  best             sp "), std::string::npos) << text.out;
    EXPECT_EQ(run_sluice({"plan", scenario, "--json"}).out, json.out);

    // simulate makes the same choice
    const Finished simulated = run_sluice({"simulate", scenario, "--json"});
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    const Json step = Json::parse(simulated.out);
    EXPECT_EQ(step["plan"]["sp"], candidates[0]["sp"]);
    EXPECT_EQ(step["plan"]["n"], candidates[0]["n"]);
    EXPECT_EQ(step["step_seconds"], candidates[0]["replayed_seconds"]);
}

TEST(PlanVerb, NamesThePartitionThatTheScenarioFixes) {
    const TemporaryFolder folder;
    const std::string scenario =
        write_scenario(folder, replaced(open_text(), "n: auto", "n: auto\n  partition: equal"));
    const Json plan = Json::parse(run_sluice({"plan", scenario, "--json"}).out);
    EXPECT_FALSE(plan["candidates"].empty());
    for (const Json& c : plan["candidates"]) EXPECT_EQ(c["partition"], "equal");
}

TEST(PlanVerb, NothingFits) {
    const TemporaryFolder folder;
    const std::string scenario =
        write_scenario(folder, replaced(open_text(), "cluster: tiny", "cluster: {use: tiny, gpu_memory: 16 MiB}"));
    const Finished plan = run_sluice({"plan", scenario});
    EXPECT_EQ(plan.code, 1);
    EXPECT_NE(plan.out.find("nothing fits"), std::string::npos) << plan.out;
    EXPECT_NE(plan.out.find("of GPU memory needed"), std::string::npos) << plan.out;
    const Finished simulated = run_sluice({"simulate", scenario, "--json"});
    EXPECT_EQ(simulated.code, 1);
    EXPECT_FALSE(Json::parse(simulated.out)["reasons"].empty());
}

TEST(PlanVerb, LongestLength) {
    const Finished json = run_sluice("plan scenarios/tiny.yaml --max-length --json");
    ASSERT_EQ(json.code, 0) << json.err;
    const Json answer = Json::parse(json.out);
    const std::int64_t step = answer["step_tokens"], longest = answer["longest"]["tokens"];
    EXPECT_EQ(step, 2);
    EXPECT_EQ(longest % step, 0);
    EXPECT_EQ(answer["first_failure"]["tokens"], longest + step);
    EXPECT_EQ(answer["first_failure"]["lacking"][0]["memory"], "gpu");
    EXPECT_GT(answer["longest"]["replayed_seconds"], 0);

    // and the command says the same of both lengths
    const TemporaryFolder folder;
    for (const std::int64_t tokens : {longest, longest + step}) {
        const std::string scenario = write_scenario(
            folder, replaced(tiny_text(), "sequence: 16 Ki tokens", "sequence: " + std::to_string(tokens) + " tokens"));
        EXPECT_EQ(run_sluice({"simulate", scenario}).code, tokens == longest ? 0 : 1) << tokens;
    }
}

TEST(PlanVerb, NothingFitsEndsWithTheSmallestChanges) {
    const TemporaryFolder folder;
    const std::string scenario =
        write_scenario(folder, replaced(tiny_text(), "cluster: tiny", "cluster: {use: tiny, gpu_memory: 96 MiB}"));
    const Finished text = run_sluice({"plan", scenario});
    EXPECT_EQ(text.code, 1);
    expect_golden("tools/plan_nothing_fits.txt", text.out);
    const Json json = Json::parse(run_sluice({"plan", scenario, "--json"}).out);
    EXPECT_FALSE(json["feasible"].get<bool>());
    int helping = 0;
    for (const Json& change : json["changes"]) {
        EXPECT_NE(change["how"], "");
        EXPECT_EQ(change["helps"].get<bool>(), !change["plan"].is_null());
        helping += change["helps"].get<bool>() ? 1 : 0;
    }
    EXPECT_EQ(json["changes"].size(), 9U);
    EXPECT_GE(helping, 2);
}

TEST(PlanVerb, ARunOfSoManyTokens) {
    const Finished text = run_sluice("plan scenarios/tiny.yaml --tokens 1B");
    EXPECT_EQ(text.code, 0);
    expect_golden("tools/plan_tokens.txt", text.out);
    const Json json = Json::parse(run_sluice("plan scenarios/tiny.yaml --tokens 1B --json").out);
    EXPECT_EQ(json["run"]["tokens"], 1'000'000'000);
    EXPECT_EQ(json["run"]["steps"], 61036);
    EXPECT_NEAR(json["run"]["work_seconds"].get<double>(),
                61036 * json["candidates"][0]["replayed_seconds"].get<double>(), 1e-6);
}

TEST(ExplainVerb, WhatBoundsTheStepAndWhatWouldHelp) {
    const Finished text = run_sluice("explain scenarios/tiny.yaml");
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_EQ(text.err, "");
    expect_golden("tools/explain.txt", text.out);
    const Json json = Json::parse(run_sluice("explain scenarios/tiny.yaml --tokens 1B --json").out);
    const double step = json["step_seconds"];
    double sum = 0;
    for (const Json& part : json["parts"]) sum += part["seconds"].get<double>();
    EXPECT_NEAR(sum, step, 1e-3 * step);
    ASSERT_EQ(json["more_of_a_resource"].size(), 7U);
    for (const Json& gain : json["more_of_a_resource"]) {
        EXPECT_LE(gain["step_seconds"].get<double>(), 1.01 * step) << gain["resource"];
        EXPECT_LE(gain["step_seconds"], gain["same_plan_seconds"]) << gain["resource"];
    }
    EXPECT_LT(json["more_of_a_resource"][0]["step_seconds"].get<double>(), 0.95 * step);  // FLOP/s
    EXPECT_EQ(json["run"]["steps"], 61036);
}

TEST(ExplainVerb, NothingFits) {
    const TemporaryFolder folder;
    const std::string scenario =
        write_scenario(folder, replaced(tiny_text(), "cluster: tiny", "cluster: {use: tiny, gpu_memory: 16 MiB}"));
    const Finished text = run_sluice({"explain", scenario});
    EXPECT_EQ(text.code, 1);
    EXPECT_NE(text.out.find("does not fit"), std::string::npos);
    const Json json = Json::parse(run_sluice({"explain", scenario, "--tokens", "1B", "--json"}).out);
    EXPECT_TRUE(json["step_seconds"].is_null());
    EXPECT_FALSE(json["reasons"].empty());
}

TEST(PlanVerb, NoLengthFits) {
    const TemporaryFolder folder;
    const std::string scenario =
        write_scenario(folder, replaced(open_text(), "cluster: tiny", "cluster: {use: tiny, gpu_memory: 16 MiB}"));
    const Finished plan = run_sluice({"plan", scenario, "--max-length"});
    EXPECT_EQ(plan.code, 1);
    EXPECT_NE(plan.out.find("longest          none fits"), std::string::npos) << plan.out;
    EXPECT_NE(plan.out.find("GPU memory of rank"), std::string::npos) << plan.out;
}

}  // namespace
}  // namespace sluice
