// Results are whole or not there, and losing one is an error.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/file.h"
#include "tests/support/temporary_folder.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// The verbs that write files, with TARGET where the file goes.
constexpr const char* kWriters[] = {
    "lower scenarios/tiny.yaml -o TARGET",
    "simulate scenarios/tiny.yaml --json --trace TARGET",
    "export tests/golden/traces/example.sltrace -o TARGET",
};

std::string with_target(std::string command, const std::string& target) {
    return command.replace(command.find("TARGET"), 6, target);
}

void expect_refused(const Finished& got, const std::string& target) {
    EXPECT_EQ(got.code, 3) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_TRUE(got.err.starts_with(target + ": cannot write")) << got.err;
}

TEST(OutputFailure, FolderThatIsNotThere) {
    const TemporaryFolder folder;
    for (const std::string writer : kWriters) {
        const std::string target = folder / "missing/result";
        expect_refused(run_sluice(with_target(writer, target)), target);
        EXPECT_TRUE(folder.names().empty()) << writer;
    }
}

TEST(OutputFailure, TargetThatIsAFolder) {
    const TemporaryFolder folder;
    for (const std::string writer : kWriters) {
        const std::string target = folder / "result";
        fs::create_directories(target);
        expect_refused(run_sluice(with_target(writer, target)), target);
        EXPECT_EQ(folder.names(), (std::vector<std::string>{"result"})) << writer;
    }
}

TEST(OutputFailure, FolderThatIsNotOursToWrite) {
    if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
    const TemporaryFolder folder;
    fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
    for (const std::string writer : kWriters) {
        const std::string target = folder / "result";
        expect_refused(run_sluice(with_target(writer, target)), target);
    }
    fs::permissions(folder.path(), fs::perms::owner_all);
    EXPECT_TRUE(folder.names().empty());
}

TEST(OutputFailure, RelativeTargetsLieInTheWorkingFolder) {
    const std::string name = "output-failure-test.tmp";  // ignored by git, should the test die here
    const fs::path path = fs::path(SLUICE_SOURCE_DIR) / name;
    EXPECT_EQ(run_sluice("lower scenarios/tiny.yaml -o " + name).code, 0);
    EXPECT_TRUE(fs::remove(path));
}

TEST(OutputFailure, WrongInputLeavesAnOldFileAlone) {
    const TemporaryFolder folder;
    const std::string target = folder / "result";
    write_file(target, [](std::ostream& out) { out << "old"; });
    for (const std::string command :
         {"lower missing.yaml -o ", "simulate missing.yaml --trace ", "export missing.trace -o "}) {
        EXPECT_EQ(run_sluice(command + target).code, 2) << command;
        EXPECT_EQ(read_file(target, 1_KiB), "old") << command;
    }
    EXPECT_EQ(folder.names(), (std::vector<std::string>{"result"}));
}

TEST(OutputFailure, FullDiskOnStdout) {
    for (const std::string command :
         {"--help", "--version", "simulate --help", "simulate scenarios/tiny.yaml",
          "simulate scenarios/tiny.yaml --json", "lower scenarios/tiny.yaml", "lower scenarios/tiny.yaml --json",
          "check tests/golden/schedules/two_stages.txt", "check --json tests/golden/schedules/two_stages.txt",
          "show tests/golden/schedules/two_stages.txt", "show --grid tests/golden/schedules/two_stages.txt",
          "show tests/golden/traces/example.sltrace", "export tests/golden/traces/example.sltrace"}) {
        const Finished got = run_sluice(command, {.out_file = "/dev/full"});
        EXPECT_EQ(got.code, 3) << command;
        EXPECT_TRUE(got.err.starts_with("stdout: cannot write")) << command << "\n" << got.err;
    }
}

}  // namespace
}  // namespace sluice
