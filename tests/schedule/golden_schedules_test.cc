// The valid examples in tests/golden/schedules: they are what docs/schedule.md tells people to start from.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

#include "base/file.h"
#include "pipeline_schedule.h"
#include "schedule/schedule_file.h"
#include "schedule/schedule_text.h"
#include "schedule/verify.h"
#include "tests/support/golden_file.h"

namespace sluice {
namespace {

std::set<std::filesystem::path> examples() {
    std::set<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(golden_path("schedules")))
        if (entry.path().extension() == ".txt") paths.insert(entry.path());
    return paths;
}

std::string problems(const Schedule& schedule) {
    std::string text;
    for (const Diagnostic& d : verify(schedule)) text += d.rule + ": " + d.message + "\n";
    return text;
}

TEST(GoldenSchedules, AreValid) {
    EXPECT_GE(examples().size(), 4U);
    for (const auto& path : examples()) EXPECT_EQ(problems(read_schedule(path)), "") << path;
}

// The bytes of the binary form are a promise: files written today must be read tomorrow.
TEST(GoldenSchedules, HaveTheirBinaryForm) {
    for (const auto& path : examples()) {
        const std::string name = "schedules_binary/" + path.stem().string() + ".sched";
        expect_golden(name, to_binary(read_schedule(path)));
        EXPECT_EQ(read_schedule(golden_path(name)), read_schedule(path)) << name;
    }
}

TEST(GoldenSchedules, FourStagesEightSubsequences) {
    expect_golden("schedules/four_stages_eight_subsequences.txt", to_text(pipeline_schedule(4, 8)));
}

// Nothing in the hand-written examples is there by habit: verify() misses every single order that is taken away.
TEST(GoldenSchedules, EveryAfterIsNeeded) {
    for (const char* name : {"two_stages", "offload", "multiplexed"}) {
        const Schedule schedule = read_schedule(golden_path(std::string("schedules/") + name + ".txt"));
        for (const Op& op : schedule.ops)
            for (std::size_t i = 0; i < op.after.size(); ++i) {
                Schedule without = schedule;
                auto& after = without.ops[index(op.id)].after;
                after.erase(after.begin() + static_cast<std::ptrdiff_t>(i));
                EXPECT_FALSE(verify(without).empty()) << name << ": " << to_text(op);
            }
    }
}

// The example in the manual is one that works.
TEST(GoldenSchedules, ManualExampleIsValid) {
    const std::string manual = read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "docs" / "schedule.md", 1_MiB);
    const std::string fence = "```\n";
    const std::size_t begin = manual.find(fence + "sluice-schedule 1\n");
    ASSERT_NE(begin, std::string::npos);
    const std::size_t end = manual.find(fence, begin + fence.size());
    const Schedule schedule =
        parse_schedule(manual.substr(begin + fence.size(), end - begin - fence.size()), "docs/schedule.md");
    EXPECT_EQ(schedule.ops.size(), 7U);
    EXPECT_EQ(problems(schedule), "");
}

}  // namespace
}  // namespace sluice
