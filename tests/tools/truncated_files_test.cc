// Files cut short, given to the command: exit code 2, one line on stderr, nothing on stdout. Every byte of every kind
// of file is cut in the folders' own tests; here is a sample, end to end. (A plan in JSON is only written, never read.)
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/support/golden_file.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

// `whole`: bytes without which the file is not whole. `commands` end before the file's name.
void expect_refused(const std::string& content, std::size_t whole, const std::vector<std::string>& commands) {
    const TemporaryFolder folder;
    const std::string path = folder / "cut";
    for (const std::size_t length : {std::size_t{0}, std::size_t{5}, whole / 3, whole * 2 / 3, whole - 1}) {
        write_file(path, [&](std::ostream& out) { out << content.substr(0, length); });
        for (const std::string& command : commands) {
            const Finished got = run_sluice(command + " " + path);
            EXPECT_EQ(got.code, 2) << command << " " << length;
            EXPECT_EQ(got.out, "") << command << " " << length;
            EXPECT_TRUE(got.err.starts_with(path + ":")) << command << " " << length << " " << got.err;
            EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1)
                << command << " " << length << " " << got.err;
        }
    }
}

const std::vector<std::string> kScheduleCommands{"check", "check --json", "show --grid",
                                                 "simulate scenarios/tiny.yaml --schedule"};

TEST(TruncatedFiles, ScheduleAsText) {
    const std::string text = read_file(golden_path("schedules/two_stages.txt"), 1_MiB);
    expect_refused(text, text.rfind("\nend") + 4, kScheduleCommands);
}

// Cut between two lines, where only the missing end tells.
TEST(TruncatedFiles, ScheduleAsTextAtALineEnd) {
    const std::string text = read_file(golden_path("schedules/two_stages.txt"), 1_MiB);
    const std::string lines = text.substr(0, text.rfind("\nop ") + 1);
    expect_refused(lines, lines.size() + 1, kScheduleCommands);
}

TEST(TruncatedFiles, ScheduleAsBinary) {
    const std::string bytes = read_file(golden_path("schedules_binary/two_stages.sched"), 1_MiB);
    expect_refused(bytes, bytes.size(), kScheduleCommands);
}

TEST(TruncatedFiles, Trace) {
    const std::string bytes = read_file(golden_path("traces/example.sltrace"), 1_MiB);
    expect_refused(bytes, bytes.size(), {"export", "show"});
}

TEST(TruncatedFiles, Scenario) {
    const std::string text = read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "scenarios/tiny.yaml", 1_MiB);
    expect_refused(text, text.rfind('8') + 1, {"plan", "lower", "simulate"});
}

}  // namespace
}  // namespace sluice
