// sluice slice, and sluice run of what it writes.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/tools/derived_scenario.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

struct SliceVerb : testing::Test {
    TemporaryFolder folder;
    const std::string scenario = "scenarios/tiny-cpu.yaml";  // two stages
    const std::string slice = folder / "rank1.schedule", predicted = folder / "rank1.trace";

    Finished cut() const {
        return run_sluice("slice " + scenario + " --rank 1 -o " + slice + " --predicted " + predicted);
    }
    Finished run(const std::string& more) const {
        return run_sluice("run " + scenario + " --data README.md --steps 1 " + more);
    }
};

TEST_F(SliceVerb, WritesAValidScheduleThatRunsAloneAndIsComparedWithItsPrediction) {
    const Finished got = cut();
    ASSERT_EQ(got.code, 0) << got.err;
    EXPECT_NE(got.out.find("tiny-cpu: rank 1 of 2: "), std::string::npos) << got.out;
    EXPECT_EQ(run_sluice("check " + slice).code, 0);
    const std::string measured = folder / "measured.trace";
    const Finished ran = run("--rank-slice 1 --slice " + slice + " --delays " + predicted + " --trace " + measured);
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_NE(ran.out.find("step 1/1  loss -  gradient "), std::string::npos) << ran.out;
    const Finished compared = run_sluice("compare " + predicted + " " + measured + " --schedule " + slice);
    EXPECT_EQ(compared.code, 0) << compared.err;
    EXPECT_NE(compared.out.find("attention_backward"), std::string::npos) << compared.out;
}

TEST_F(SliceVerb, ARunPlansAndCutsTheSameSliceItself) {
    ASSERT_EQ(cut().code, 0);
    const std::string own = folder / "own.trace", measured = folder / "measured.trace";
    const Finished ran = run("--rank-slice 1 --predicted " + own + " --trace " + measured);
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(run_sluice("compare " + predicted + " " + measured).code, 0) << "traces of one schedule";
    EXPECT_EQ(run_sluice("compare " + own + " " + measured).code, 0);
}

TEST_F(SliceVerb, WrongWordsAreToldInOneLine) {
    ASSERT_EQ(cut().code, 0);
    const auto refused = [&](const std::string& more, const std::string& expected) {
        const Finished got = run(more);
        EXPECT_EQ(got.code, 2) << more;
        EXPECT_NE(got.err.find(expected), std::string::npos) << got.err;
    };
    refused("--rank-slice 2", "got '2', expected 0 to 1: the plan has 2 ranks");
    refused("--rank-slice 0 --slice " + slice, "is not the slice of rank 0");
    refused("--rank-slice 1 --delays tests/golden/traces/example.sltrace", "expected a trace of the slice that is run");
    refused("--slice " + slice, "needs --rank-slice R");
    refused("--rank-slice 1 --checkpoint " + (folder / "kept"), "--checkpoint: is not for --rank-slice");
    EXPECT_EQ(run_sluice("slice " + scenario + " --rank 7 -o " + slice).code, 2);
    EXPECT_EQ(run_sluice("slice " + scenario).code, 2);
}

}  // namespace
}  // namespace sluice
