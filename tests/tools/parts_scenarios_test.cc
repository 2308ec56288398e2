// The shipped scenarios on parts of a GPU are there to show bubbles: enough of one is foretold.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

TEST(PartsScenarios, ForetellABubble) {
    int scenarios = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios")) {
        if (entry.path().stem().string().find("-split") == std::string::npos) continue;
        const Finished got = run_sluice("simulate --json " + entry.path().string());
        ASSERT_EQ(got.code, 0) << entry.path() << got.err;
        EXPECT_GE(nlohmann::json::parse(got.out)["bubble_fraction"].get<double>(), 0.15) << entry.path();
        ++scenarios;
    }
    EXPECT_GE(scenarios, 6);
}

}  // namespace
}  // namespace sluice
