// Every rule of verify() on the smallest schedule that breaks it. The first line of a golden file is a comment with the
// one diagnostic expected: "# rule: message".
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "base/file.h"
#include "random_schedule.h"
#include "schedule/schedule_text.h"
#include "schedule/verify.h"
#include "schedule/verify_rules.h"
#include "tests/support/schedule_builder.h"

namespace sluice {
namespace {

// What neither file form can hold, since their readers refuse it: shown below with schedules made in memory.
const std::set<std::string_view> kNotInFiles{"dense-ids", "enum-range"};

std::filesystem::path golden(std::string_view rule) {
    return std::filesystem::path(SLUICE_SOURCE_DIR) / "tests/golden/invalid" / fmt::format("{}.txt", rule);
}

std::string text(const Diagnostics& found) {
    std::string result;
    for (const Diagnostic& d : found) result += fmt::format("# {}: {}\n", d.rule, d.message);
    return result;
}

class GoldenRule : public testing::TestWithParam<std::string_view> {};

TEST_P(GoldenRule, IsBrokenByItsFileAlone) {
    const std::string file = read_file(golden(GetParam()), 1_MiB);
    const Diagnostics found = verify(parse_schedule(file, "golden"));
    EXPECT_EQ(text(found), file.substr(0, file.find('\n') + 1));
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].rule, GetParam());
}

std::vector<std::string_view> rules_in_files() {
    std::vector<std::string_view> rules;
    for (const std::string_view rule : kRuleNames)
        if (!kNotInFiles.contains(rule)) rules.push_back(rule);
    return rules;
}

INSTANTIATE_TEST_SUITE_P(Verify, GoldenRule, testing::ValuesIn(rules_in_files()), [](const auto& param) {
    std::string name(param.param);
    std::ranges::replace(name, '-', '_');
    return name;
});

TEST(Verify, HasNoGoldenWithoutARule) {
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(golden("").parent_path())) {
        EXPECT_TRUE(std::ranges::find(kRuleNames, entry.path().stem().string()) != kRuleNames.end()) << entry.path();
        ++files;
    }
    EXPECT_EQ(files, kRuleNames.size() - kNotInFiles.size());
}

TEST(Verify, RulesAreDocumented) {
    const std::string page = read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "docs/schedule-rules.md", 1_MiB);
    for (const std::string_view rule : kRuleNames)
        EXPECT_NE(page.find(fmt::format("| `{}` |", rule)), std::string::npos) << rule;
}

TEST(Verify, WantsDenseIds) {
    ScheduleBuilder b(1);
    b.compute(0);
    b.compute(0);
    b.schedule.ops[1].id = OpId{5};
    EXPECT_EQ(text(verify(b.schedule)), "# dense-ids: op at position 1 has id 5, expected its position\n");
}

TEST(Verify, WantsEnumsInRange) {
    ScheduleBuilder b(1);
    b.compute(0);
    b.schedule.ops[0].tag.phase = static_cast<Phase>(6);
    EXPECT_EQ(text(verify(b.schedule)), "# enum-range: op 0: phase is 6, expected at most 5\n");
}

TEST(Verify, AcceptsNothingAtAll) { EXPECT_TRUE(verify({}).empty()); }

TEST(Verify, OrdersByOpThenRule) {
    ScheduleBuilder b(2);
    b.send(0, 1, 0_B);
    b.op(1, {LaneKind::kCompute, kNoRank}, Copy{0_B}, {}, {OpId{9}});
    b.compute(3);
    EXPECT_EQ(text(verify(b.schedule)),
              "# value-range: bytes of op 0 is 0, expected at least 1\n"
              "# index-range: op 1 refers to op 9, expected below 3\n"
              "# value-range: bytes of op 1 is 0, expected at least 1\n"
              "# index-range: op 2 refers to rank 3, expected below 2\n");
}

// Whatever the struct holds: the sanitizers watch.
TEST(Verify, SurvivesAnything) {
    std::size_t refused = 0;
    for (std::uint32_t seed = 0; seed < 4000; ++seed) refused += !verify(random_schedule(seed)).empty();
    EXPECT_GT(refused, 3000U);
}

}  // namespace
}  // namespace sluice
