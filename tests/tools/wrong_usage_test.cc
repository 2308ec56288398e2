// Everything the command refuses, with its whole message.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "tests/support/golden_file.h"
#include "tests/tools/run_sluice.h"

namespace sluice {
namespace {

constexpr const char* kWrong[] = {
    "simulat",
    "frobnicate",
    "simulate",
    "plan",
    "lower",
    "check",
    "show",
    "export",
    "compare",
    "compare tests/golden/traces/example.sltrace",
    "compare tests/golden/traces/example.sltrace missing.trace",
    "compare tests/golden/traces/example.sltrace scenarios/tiny.yaml",
    "compare tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace --ops 0",
    "compare tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace --schedule tests/golden/schedules/two_stages.txt",
    "compare --force tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace",
    "judge",
    "judge tests/golden/traces/example.sltrace",
    "judge docs",
    "judge docs tests/golden/traces/example.sltrace",
    "judge tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace --step 5",
    "judge tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace --peak -1%",
    "judge tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace --class gemm",
    "judge tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace --class gemm=10%,",
    "judge tests/golden/traces/example.sltrace tests/golden/traces/example.sltrace --tolerances scenarios/tiny.yaml",
    "fit",
    "fit scenarios/tiny.yaml",
    "fit scenarios/tiny.yaml tests/golden/schedules/two_stages.txt",
    "fit scenarios/tiny.yaml tests/golden/traces/example.sltrace",
    "fit scenarios/tiny.yaml tests/golden/traces/example.sltrace --name a/b",
    "fit scenarios/tiny.yaml tests/golden/traces/example.sltrace -o - --json",
    "fit scenarios/tiny.yaml README.md",
    "run",
    "run scenarios/tiny-cpu.yaml",
    "run scenarios/tiny-cpu.yaml --data README.md",
    "run scenarios/tiny-cpu.yaml --steps 1",
    "run scenarios/tiny-cpu.yaml --data README.md --steps -1",
    "run scenarios/tiny-cpu.yaml --data README.md --steps many",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1.5",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --device tpu",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --resume",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --every 2",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --every 0 --checkpoint x",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --adapt -1",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --clip nan",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --learning-rate fast",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --trace -",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --predicted /dev/null",
    "run scenarios/tiny-cpu.yaml --data missing.txt --steps 1",
    "run scenarios/tiny-cpu.yaml --data scenarios --steps 1",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 1 --frobnicate",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault throw",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault throw:2",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault hang:1:2",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault throw:1:2:3",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault stall:0:2",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault stall:4:2",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault stall:1:-2",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault throw:1:99999",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault throw:1:4294967295",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault throw:1:2 --adapt 1",
    "run scenarios/tiny-cpu.yaml --data README.md --steps 3 --fault throw:1:115 --rank-slice 0 --json",
    "run missing.yaml --data README.md --steps 1",
    "simulate missing.yaml",
    "plan missing.yaml",
    "lower missing.yaml",
    "check missing.txt",
    "show missing.txt",
    "export missing.trace",
    "simulate scenarios",
    "check .",
    "simulate scenarios/tiny.yaml --jsn",
    "simulate --frobnicate scenarios/tiny.yaml",
    "plan scenarios/tiny.yaml --max-lenght",
    "simulate scenarios/tiny.yaml scenarios/tiny.yaml scenarios/tiny.yaml",
    "simulate scenarios/tiny.yaml missing.yaml",
    "simulate scenarios/tiny.yaml scenarios/tiny.yaml --trace x.trace",
    "simulate scenarios/tiny.yaml --max-slowdown 5%",
    "simulate scenarios/tiny.yaml scenarios/tiny.yaml --max-slowdown 5",
    "simulate scenarios/tiny.yaml scenarios/tiny.yaml --max-slowdown -1%",
    "plan scenarios/tiny.yaml --tokens",
    "plan scenarios/tiny.yaml --tokens 1K",
    "plan scenarios/tiny.yaml --tokens 0B",
    "plan scenarios/tiny.yaml --tokens -1B",
    "plan scenarios/tiny.yaml --tokens 0.0000001M",
    "plan scenarios/tiny.yaml --tokens 2000000T",
    "plan scenarios/tiny.yaml --tokens 1B --max-length",
    "explain",
    "explain missing.yaml",
    "explain scenarios/tiny.yaml --tokens many",
    "explain scenarios/tiny.yaml --max-length",
    "lower scenarios/tiny.yaml -o",
    "simulate scenarios/tiny.yaml --schedule missing.txt",
    "simulate scenarios/tiny.yaml --schedule scenarios/tiny.yaml",
    "simulate scenarios/tiny.yaml --schedule tests/golden/sim/all_gather.txt --trace -",
    "simulate scenarios/tiny.yaml --trace /dev/null",
    "lower scenarios/tiny.yaml -o /dev/null",
    "show tests/golden/schedules/two_stages.txt --columns 0",
    "show tests/golden/schedules/two_stages.txt --columns -5",
    "show tests/golden/schedules/two_stages.txt --columns wide",
    "show tests/golden/schedules/two_stages.txt --columns 99999999999999999999",
    "show tests/golden/traces/example.sltrace --grid",
    "export tests/golden/traces/example.sltrace --ranks -1",
    "export tests/golden/traces/example.sltrace --json",
    "export tests/golden/schedules/two_stages.txt",
    "export tests/golden/schedules_binary/two_stages.sched",
    "check scenarios/tiny.yaml",
    "check tests/golden/traces/example.sltrace",
    "simulate tests/golden/schedules_binary/two_stages.sched",
    "simulate tests/golden/scenarios/wrong/key-unknown.yaml",
    "lower tests/golden/scenarios/wrong/number-nan.yaml --json",
    "simulate tests/golden/scenarios/wrong/number-2-to-the-63.yaml --json",
};

TEST(WrongUsage, ExitsWithTwoAndOneLineThatSaysWhy) {
    std::string transcript;
    for (const std::string command : kWrong) {
        const Finished got = run_sluice(command);
        EXPECT_EQ(got.code, 2) << command;
        EXPECT_EQ(got.out, "") << command;
        EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << command << "\n" << got.err;
        EXPECT_TRUE(got.err.ends_with('\n')) << command;
        transcript += "$ sluice " + command + "\n" + got.err;
    }
    expect_golden("tools/wrong_usage.txt", transcript);
}

// The reader's own tests have the messages; here every tenth file passes through the command.
TEST(WrongUsage, WrongScenariosEndTheSameWay) {
    std::set<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(golden_path("scenarios/wrong")))
        if (entry.path().extension() == ".yaml") paths.insert(entry.path().string());
    ASSERT_GE(paths.size(), 15U);
    std::size_t position = 0;
    for (const std::string& path : paths) {
        if (position++ % 10 != 0) continue;
        const Finished got = run_sluice({"simulate", path, "--json"});
        EXPECT_EQ(got.code, 2) << path;
        EXPECT_EQ(got.out, "") << path;
        EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << path << "\n" << got.err;
    }
}

TEST(WrongUsage, NoVerbPrintsTheHelpAndFails) {
    const Finished got = run_sluice("");
    EXPECT_EQ(got.code, 2);
    EXPECT_EQ(got.out, run_sluice("--help").out);
}

}  // namespace
}  // namespace sluice
