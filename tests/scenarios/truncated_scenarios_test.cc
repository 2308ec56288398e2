// Scenarios and configs cut at every byte. A config ends with its closing brace, so that no part of it is whole. A
// scenario in YAML has no end mark: what is left is refused, in one line, until every required key has a value.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/read_hf_config.h"
#include "scenarios/scenario.h"

namespace sluice {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/scenarios";

// Of a cut file: "" when it is accepted.
template <class Parse>
std::string refusal(Parse parse) {
    try {
        parse();
        return "";
    } catch (const InputError& error) {
        return error.what();
    }
}

std::string scenario_refusal(const std::string& text) {
    return refusal([&] { parse_scenario(text, "cut.yaml", kGolden / "valid"); });
}

// Every cut before `whole` is refused, and none makes a message of several lines.
void expect_refused_before(const std::string& text, std::size_t whole) {
    for (std::size_t length = 0; length < text.size(); ++length) {
        const std::string message = scenario_refusal(text.substr(0, length));
        ASSERT_TRUE(length >= whole || message.starts_with("cut.yaml:")) << length << " " << message;
        ASSERT_EQ(message.find('\n'), std::string::npos) << length << " " << message;
    }
    EXPECT_EQ(scenario_refusal(text), "");
}

TEST(TruncatedScenario, IsRefusedUntilEveryRequiredKeyHasAValue) {
    const std::string block =
        "model: tiny\ncluster: tiny\ncalibration: tiny\nsequence: 16 Ki tokens\n"
        "policy:\n  sp: {degree: 2}\n  n: 16\n  pp: 2\n";
    expect_refused_before(block, block.rfind('2') + 1);
    const std::string flow =
        "model: tiny\ncluster: tiny\ncalibration: tiny\nsequence: 16 Ki tokens\n"
        "policy: {sp: {degree: 2}, pp: 2, n: 16}\n";
    expect_refused_before(flow, flow.rfind('}') + 1);
}

TEST(TruncatedScenario, OfEveryKeyIsReadOrRefusedInOneLine) {
    const std::string text = read_file(kGolden / "valid/everything.yaml", 1_MiB);
    expect_refused_before(text, text.find("n: 3") + 4);
}

TEST(TruncatedHfConfig, IsRefusedAtEveryByte) {
    for (const auto& entry : std::filesystem::directory_iterator(kGolden / "hf")) {
        const std::string text = read_file(entry.path(), 1_MiB);
        const std::size_t whole = text.rfind('}') + 1;
        for (std::size_t length = 0; length < whole; ++length) {
            const std::string cut = text.substr(0, length);
            const std::string message = refusal([&] { parse_hf_config(cut, "cut.json", "cut"); });
            ASSERT_TRUE(message.starts_with("cut.json:")) << entry.path() << " " << length << " " << message;
            ASSERT_EQ(message.find('\n'), std::string::npos) << entry.path() << " " << length << " " << message;
        }
        EXPECT_EQ(refusal([&] { parse_hf_config(text.substr(0, whole), "whole.json", "whole"); }), "");
    }
}

}  // namespace
}  // namespace sluice
