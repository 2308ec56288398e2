#include "validation/judge.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace sluice {
namespace {

// A step of 11 s predicted as 10 s; exposed copies 1 s of 10 s and 2.2 s of 11 s; GEMM 20% under.
Comparison comparison() {
    Comparison c;
    c.step = {Seconds{10}, Seconds{11}};
    c.predicted_mean.exposed_d2h = Seconds{1};
    c.measured_mean.exposed_d2h = Seconds{1.2};
    c.measured_mean.exposed_h2d = Seconds{1};
    c.classes = {{"gemm", 4, 4, {Seconds{8}, Seconds{10}}, {}, {}},
                 {"norm", 4, 4, {Seconds{0.01}, Seconds{0.02}}, {}, {}}};
    c.pools = {{false, 3, 1000_B, 1001_B, 2000_B, 2000_B}};
    return c;
}

std::string verdicts(const Tolerances& t, const Comparison& c = comparison()) {
    std::string text;
    for (const Verdict& v : judge(c, t)) text += (v.passed ? "pass " : "fail ") + v.what + "\n";
    return text;
}

TEST(Judge, HoldsEachPartAgainstItsTolerance) {
    Tolerances t;
    EXPECT_EQ(verdicts(t), "pass ops\n");
    t.step = 0.1, t.exposed_copy = 0.1, t.peak = 0.001, t.every_class = 0.2;
    EXPECT_EQ(verdicts(t), "pass ops\npass step\npass exposed_copy\npass peak of rank 3\npass class gemm\n")
        << "norm has less than 1% of the busy time";
    t.step = 0.09, t.exposed_copy = 0.09, t.peak = 0, t.every_class = 0.19, t.classes["norm"] = 0.4,
    t.classes["rope"] = 1;
    EXPECT_EQ(verdicts(t),
              "pass ops\nfail step\nfail exposed_copy\nfail peak of rank 3\nfail class gemm\nfail class norm\nfail "
              "class rope\n");
    t.classes = {{"gemm", 0.3}};
    EXPECT_NE(verdicts(t).find("pass class gemm"), std::string::npos) << "its own tolerance goes before that of all";
}

TEST(Judge, BubblesAreComparedAsSharesOfTheirSteps) {
    Comparison c = comparison();
    Tolerances t;
    t.bubble = 0.03;
    EXPECT_EQ(verdicts(t, c), "pass ops\npass bubble\n");
    c.measured_mean.warm_up = c.step.measured * 0.01, c.measured_mean.bubble = c.step.measured * 0.015;
    EXPECT_EQ(verdicts(t, c), "pass ops\npass bubble\n");
    c.measured_mean.drain = c.step.measured * 0.01;
    EXPECT_EQ(verdicts(t, c), "pass ops\nfail bubble\n");
}

TEST(Judge, NodesHaveAToleranceOfTheirOwn) {
    Comparison c = comparison();
    c.pools = {{false, 3, 1000_B, 1000_B, 2000_B, 2000_B}, {true, 0, 1000_B, 1020_B, 2000_B, 2000_B}};
    Tolerances t;
    t.peak = 0;
    EXPECT_EQ(verdicts(t, c), "pass ops\npass peak of rank 3\nfail peak of node 0\n");
    t.node_peak = 0.02;
    EXPECT_EQ(verdicts(t, c), "pass ops\npass peak of rank 3\npass peak of node 0\n");
    c.pools[0].measured_live = 1001_B;
    EXPECT_EQ(verdicts(t, c), "pass ops\nfail peak of rank 3\npass peak of node 0\n");
}

TEST(Judge, ArenasAreEqualToTheByteWhateverTheTolerance) {
    Comparison c = comparison();
    c.pools = {{false, 3, 1000_B, 1000_B, 2000_B, 2001_B}};
    Tolerances t;
    t.peak = 1;
    EXPECT_EQ(verdicts(t, c), "pass ops\nfail peak of rank 3\n");
    EXPECT_TRUE(judge(c, t)[1].got.ends_with("arena 2000 B, 2001 B, expected the same"));
}

TEST(Judge, FailsOpsThatATraceLacks) {
    Comparison c = comparison();
    c.only_predicted.push_back(OpId{4});
    EXPECT_EQ(verdicts({}, c), "fail ops\n");
}

TEST(ReadTolerances, OfAFile) {
    Tolerances t;
    t.peak = 0;
    read_tolerances(
        "# what counts\nstep 7.5%\n\n  exposed_copy 2%  # share\nclasses 20%\nclass gemm 5%\nnode_peak 2%\n", "t", t);
    EXPECT_EQ(t.step, 0.075);
    EXPECT_EQ(t.exposed_copy, 0.02);
    EXPECT_EQ(t.peak, 0) << "stays";
    EXPECT_EQ(t.node_peak, 0.02);
    EXPECT_EQ(t.every_class, 0.2);
    EXPECT_EQ(t.classes.at("gemm"), 0.05);
}

TEST(ReadTolerances, RefusesEverythingElse) {
    const std::pair<const char*, const char*> cases[] = {
        {"steps 5%",
         "t:1: got \"steps\", expected step, exposed_copy, bubble, peak, node_peak, classes or class; did you mean "
         "\"step\"?"},
        {"step 5% 6%", "t:1: got 3 words, expected \"step PERCENT%\""},
        {"\nclass gemm", "t:2: got 2 words, expected \"class NAME PERCENT%\""},
        {"step 5", "t:1: got \"5\", expected a percentage from 0% to 1000%, as in 10%"},
        {"step -5%", "t:1: got \"-5%\", expected a percentage from 0% to 1000%, as in 10%"},
        {"step nan%", "t:1: got \"nan%\", expected a percentage from 0% to 1000%, as in 10%"},
        {"step 1e1%", "t:1: got \"1e1%\", expected a percentage from 0% to 1000%, as in 10%"},
    };
    for (const auto& [text, message] : cases) {
        Tolerances t;
        try {
            read_tolerances(text, "t", t);
            ADD_FAILURE() << text;
        } catch (const InputError& e) {
            EXPECT_STREQ(e.what(), message);
        }
    }
}

}  // namespace
}  // namespace sluice
