#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/support/golden_file.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

constexpr const char* kVerbs[] = {"simulate", "plan", "explain", "lower",   "slice", "check", "show",
                                  "export",   "run",  "profile", "compare", "judge", "fit"};

TEST(Help, OfTheCommandNamesEveryVerbAndTheExitCodes) {
    for (const std::string how : {"--help", "-h", "help"}) {
        const Finished got = run_sluice(how);
        EXPECT_EQ(got.code, 0);
        EXPECT_EQ(got.err, "");
        expect_golden("tools/help.txt", got.out);
    }
}

TEST(Help, OfEachVerb) {
    std::string transcript;
    for (const std::string verb : kVerbs) {
        const Finished got = run_sluice(verb + " --help");
        EXPECT_EQ(got.code, 0) << verb;
        EXPECT_EQ(got.err, "") << verb;
        EXPECT_NE(got.out.find("examples:\n  sluice " + verb + " "), std::string::npos) << got.out;
        EXPECT_NE(got.out.find("--json"), std::string::npos) << got.out;
        EXPECT_EQ(run_sluice(verb + " -h").out, got.out);
        transcript += "$ sluice " + verb + " --help\n" + got.out + "\n";
    }
    expect_golden("tools/verb_help.txt", transcript);
}

// The examples of a help text, run as printed, except for the large scenario and files that only exist afterwards.
TEST(Help, ExamplesAreAccepted) {
    std::size_t ran = 0;
    for (const std::string verb : kVerbs) {
        std::istringstream lines(run_sluice(verb + " --help").out);
        for (std::string line; std::getline(lines, line);) {
            if (!line.starts_with("  sluice ")) continue;
            const bool stands_alone =
                line.find("tiny.yaml") != std::string::npos || line.find("golden") != std::string::npos;
            if (!stands_alone || line.find("mine.txt") != std::string::npos) continue;
            const Finished got = run_sluice(line.substr(std::string("  sluice ").size()));
            EXPECT_EQ(got.code, 0) << line << "\n" << got.err;
            ++ran;
        }
    }
    EXPECT_GE(ran, 5U);
}

TEST(Help, Version) {
    const Finished got = run_sluice("--version");
    EXPECT_EQ(got.code, 0);
    EXPECT_TRUE(got.out.starts_with("sluice 0.")) << got.out;
}

}  // namespace
}  // namespace sluice
