// Output of nccl-tests and nvbandwidth. The files of tests/golden/link_measurements were written by hand after the
// printing code of both programs; nothing in them was measured.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "scenarios/nccl_tests_run.h"
#include "scenarios/nvbandwidth_run.h"

namespace sluice {
namespace {

std::string golden(const std::string& name) {
    return read_file(std::filesystem::path(SLUICE_SOURCE_DIR) / "tests" / "golden" / "link_measurements" / name, 1_MiB);
}

std::string changed(std::string text, std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    return at == text.npos ? text : text.replace(at, from.size(), to);
}

template <class Parse>
std::string refusal(const Parse& parse) {
    try {
        parse();
    } catch (const InputError& error) {
        return error.what();
    }
    return "accepted";
}
std::string refusal_of_table(const std::string& text) {
    return refusal([&] { parse_nccl_tests(text, "t"); });
}
std::string refusal_of_matrices(const std::string& text) {
    return refusal([&] { parse_nvbandwidth(text, "n"); });
}

TEST(NcclTests, TheTableIsRead) {
    const std::vector<NcclTestsRun> runs = parse_nccl_tests(golden("all_gather_h100x8.txt"), "t");
    ASSERT_EQ(runs.size(), 1U);
    const NcclTestsRun& run = runs[0];
    EXPECT_EQ(run.kind, MessageKind::kAllGather);
    EXPECT_EQ(run.version, "2.19.6");
    EXPECT_EQ(run.nccl, "2.28.9");
    EXPECT_EQ(run.date, "");
    EXPECT_EQ(run.members.size(), 8U);
    EXPECT_EQ(run.members[7].device, 7);
    EXPECT_EQ(run.hosts(), 1U);
    EXPECT_EQ(run.devices, std::vector<std::string>{"NVIDIA H100 80GB HBM3"});
    ASSERT_EQ(run.figures.size(), 11U);
    const MessageFigure last{MessageKind::kAllGather, 8, 0, 1_GiB, Seconds{2611.42e-6}};
    EXPECT_EQ(run.figures.back().size, last.size);
    EXPECT_NEAR(run.figures.back().time.value, last.time.value, 1e-12);
    EXPECT_EQ(run.figures.back().members, 8U);
}

TEST(NcclTests, EveryProgramIsKnown) {
    const std::pair<const char*, MessageKind> files[] = {{"reduce_scatter_h100x8.txt", MessageKind::kReduceScatter},
                                                         {"all_reduce_h100x8.txt", MessageKind::kAllReduce},
                                                         {"alltoall_h100x8.txt", MessageKind::kAllToAll},
                                                         {"sendrecv_h100x8.txt", MessageKind::kSendReceive}};
    std::string all;
    for (const auto& [file, kind] : files) {
        all += "node-0:4100:4100 [0] NCCL INFO Bootstrap: Using eth0\n" + golden(file);
        EXPECT_EQ(parse_nccl_tests(golden(file), file).at(0).kind, kind) << file;
    }
    const auto runs = parse_nccl_tests(all, "one log");
    ASSERT_EQ(runs.size(), 4U);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(runs[i].kind, files[i].second);
}

TEST(NcclTests, JsonSaysWhatTheTableSays) {
    const NcclTestsRun table = parse_nccl_tests(golden("reduce_scatter_h100x8.txt"), "t").at(0);
    const NcclTestsRun json = parse_nccl_tests(golden("reduce_scatter_h100x8.json"), "j").at(0);
    EXPECT_EQ(json.figures, table.figures);
    EXPECT_EQ(json.members.size(), table.members.size());
    EXPECT_EQ(json.nccl, table.nccl);
    EXPECT_EQ(json.devices, table.devices);
    EXPECT_EQ(json.date, "2026-07-09");
}

// Its table does not name the program; two hosts; redop and root were blank once, and errors had a column of their own.
TEST(NcclTests, OlderTablesAreRead) {
    const std::string text = golden("all_gather_2nodes_old.txt");
    EXPECT_EQ(refusal_of_table(text),
              "t:22:9: the output does not say which program it is of (nccl-tests before 2.17.4), expected it with the "
              "file's name: all_gather_perf=FILE");
    const NcclTestsRun run = parse_nccl_tests(text, "t", MessageKind::kAllGather).at(0);
    EXPECT_EQ(run.hosts(), 2U);
    EXPECT_EQ(run.members[8].host, 1U);
    EXPECT_EQ(run.members[8].device, 0);
    EXPECT_EQ(run.figures.size(), 8U);
    EXPECT_EQ(refusal([&] { parse_nccl_tests(text, "t", MessageKind::kAllReduce); }),
              "t:24:57: got busbw 0.75 GB/s, expected 1.50: that is what all_reduce_perf makes of algbw 0.8 among 16 "
              "ranks");
    const std::string oldest =
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 \n"
        "#\n# Using devices\n"
        "#   Rank  0 Pid  12345 on    a-host device  0 [0x07] Tesla V100-SXM2-32GB\n"
        "#   Rank  1 Pid  12345 on    a-host device  1 [0x0a] Tesla V100-SXM2-32GB\n"
        "#\n#                                             out-of-place                       in-place          \n"
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
        "           0             0   float    12.05    0.00    0.00  0e+00    11.97    0.00    0.00  0e+00\n"
        "     1048576        131072   float    40.00   26.21   13.11  1e-07    39.97   26.23   13.12  1e-07\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6.5 \n#\n";
    const NcclTestsRun old = parse_nccl_tests(oldest, "t", MessageKind::kAllGather).at(0);
    ASSERT_EQ(old.figures.size(), 1U);
    EXPECT_EQ(old.figures[0].size, 1_MiB);
    EXPECT_EQ(old.figures[0].members, 2U);
}

TEST(NcclTests, WhatIsWrongIsRefusedWhereItStands) {
    const std::string good = golden("all_gather_h100x8.txt");
    const struct {
        std::string text, message;
    } cases[] = {
        {"", "t:1:1: got no table of nccl-tests, expected a line '# nThread ... nGpus ...', ranks and a table"},
        {changed(good, "23.00       0", "23.00      12"),
         "t:23:84: got 12 wrong elements, expected 0: a collective that gives wrong results says nothing of one that "
         "works"},
        {changed(good, "values : 0 OK", "values : 3 FAILED"), "t:29:26: got 3 values out of bounds, expected 0"},
        {good.substr(0, good.find("# Out of")),
         "t:29:1: the table of line 16 has no end, expected '# Out of bounds values': the output is cut"},
        {changed(good, "all_gather_perf", "all_gather_pref"),
         "t:2:29: got \"all_gather_pref\", expected one of all_gather_perf, reduce_scatter_perf, all_reduce_perf, "
         "alltoall_perf, sendrecv_perf; did you mean all_gather_perf?"},
        {changed(good, "all_gather_perf", "broadcast_perf"),
         "t:2:29: got \"broadcast_perf\", expected one of all_gather_perf, reduce_scatter_perf, all_reduce_perf, "
         "alltoall_perf, sendrecv_perf"},
        {changed(good, "all_gather_perf", "all_reduce_perf"),
         "t:18:57: got busbw 0.02 GB/s, expected 0.05: that is what all_reduce_perf makes of algbw 0.03 among 8 "
         "ranks"},
        {changed(good, "Rank  3", "Rank  4"), "t:9:10: got rank 4, expected rank 3"},
        {changed(good, "Rank  3 Group  0", "Rank  3 Group  1"),
         "t:9:19: got group 1 beside group 0, expected one group: several at once share links, and their times say "
         "nothing of one"},
        {changed(good, "    time   algbw", " cputime   algbw"),
         "t:16:55: got times of the CPU (-C), expected times of the GPUs"},
        {changed(good, "  2611.42", "      nan"), "t:28:59: time: got \"nan\", expected a number"},
        {changed(good, "  2611.42", "  2.6e+06"),
         "t:28:55: got algbw 411.17 GB/s, expected 0.41: 1073741824 bytes in 2600000 us"},
        {changed(good, "  2611.42", "        0"),
         "t:28:61: got a time of 0 us, expected more than 0, at most 1000000000"},
        {changed(changed(good, "(us)  (GB/s)", "(ms)  (GB/s)"), "(us)  (GB/s)", "(ms)  (GB/s)"),
         "t:17:10: got other units, expected (us) and (GB/s)"},
        {changed(good, "  2611.42", ""), "t:28:3: got 12 cells, expected 13, as the columns are named"},
        {changed(good, "NVIDIA H100 80GB HBM3", "\x1b[31m"),
         "t:6:69: GPU: got \" [31m\", expected at most 64 printable ASCII characters"},
    };
    for (const auto& [text, message] : cases) EXPECT_EQ(refusal_of_table(text), message);
}

TEST(NcclTests, JsonIsRefusedWhereItIsWrong) {
    const std::string good = golden("reduce_scatter_h100x8.json");
    const struct {
        std::string text, message;
    } cases[] = {
        {changed(good, "\"nwrong\":0.000000", "\"nwrong\":7.000000"), "wrong elements"},
        {changed(good, "\"time\":", "\"cpu_time\":"), "times of the CPU"},
        {changed(good, "\"count\":0,\"okay\":\"true\"", "\"count\":2,\"okay\":\"false\""),
         "got 2 values out of bounds"},
        {changed(good, "\"ngpus\":8", "\"ngpus\":1"), "expected 2 or more"},
        {changed(good, "\"ngpus\":8", "\"ngpus\":2000"), "config.ngpus"},
        {changed(good, "\"results\"", "\"resluts\""), "results"},
        {changed(good, "\"rank\":0", "\"rank\":5"), "got rank 5, expected 0"},
        {good.substr(0, good.size() / 2), "not valid JSON"},
    };
    for (const auto& [text, message] : cases) {
        const std::string got = refusal([&] { parse_nccl_tests(text, "j"); });
        EXPECT_NE(got.find(message), got.npos) << got << "\nexpected: " << message;
        EXPECT_EQ(got.rfind("j:1:", 0), 0U) << got;
        EXPECT_EQ(got.find("SECRET"), got.npos) << got;
    }
}

TEST(Nvbandwidth, BothFormsSayTheSame) {
    const NvbandwidthRun text = parse_nvbandwidth(golden("nvbandwidth_h100x8.txt"), "n");
    const NvbandwidthRun json = parse_nvbandwidth(golden("nvbandwidth_h100x8.json"), "n");
    for (const NvbandwidthRun* run : {&text, &json}) {
        EXPECT_EQ(run->version, "v0.8");
        EXPECT_EQ(run->driver, "570.124.06");
        EXPECT_EQ(run->gpus, 8U);
        EXPECT_EQ(run->devices, std::vector<std::string>{"NVIDIA H100 80GB HBM3"});
        ASSERT_EQ(run->matrices.size(), 10U);
        EXPECT_EQ(run->matrices[0].test, "host_to_device_memcpy_ce");
        EXPECT_EQ(run->matrices[0].rows, 1U);
        EXPECT_EQ(run->matrices[0].columns, 8U);
        EXPECT_NEAR(run->matrices[0].at(0, 1).value(), 55.23, 1e-9);
        EXPECT_EQ(run->matrices[4].at(3, 3), std::nullopt);
        EXPECT_NEAR(run->matrices[4].at(0, 1).value(), 391.31, 1e-9);
        EXPECT_FALSE(run->matrices[9].in_gigabytes_per_second());
    }
    EXPECT_TRUE(is_nvbandwidth(golden("nvbandwidth_h100x8.txt")));
    EXPECT_TRUE(is_nvbandwidth(golden("nvbandwidth_h100x8.json")));
    EXPECT_FALSE(is_nvbandwidth(golden("all_gather_h100x8.txt")));
    EXPECT_FALSE(is_nvbandwidth(golden("reduce_scatter_h100x8.json")));
}

TEST(Nvbandwidth, WhatIsWrongIsRefusedWhereItStands) {
    const std::string good = golden("nvbandwidth_h100x8.txt"), json = golden("nvbandwidth_h100x8.json");
    const struct {
        std::string text, message;
    } cases[] = {
        {"nothing of it", "n:2:1: got no matrix of nvbandwidth, expected one"},
        {changed(good, "     55.23", "    555.23"),
         "n:23:30: got the sum 442.44 of host_to_device_memcpy_ce, expected 942.44, the sum of its cells"},
        {changed(good, "     55.23", ""), "n:21:2: got 8 words in row 0, expected a label and 8 cells"},
        {changed(good, "     55.23", "       inf"), "n:21:20: a rate: got \"inf\", expected a number"},
        {changed(good, "     55.23", "    -55.23"), "n:21:17: got \"-55.23\", expected 0 ... 1000000000"},
        {good.substr(0, good.find("SUM host")),
         "n:23:1: the matrix of host_to_device_memcpy_ce has no sum, expected 'SUM host_to_device_memcpy_ce ...': the "
         "output is cut"},
    };
    for (const auto& [text, message] : cases) EXPECT_EQ(refusal_of_matrices(text), message);
    const std::pair<std::string, std::string> json_cases[] = {
        {changed(json, "\"55.23\"", "\"555.23\""), "the sum of its cells"},
        {changed(json, "\"55.23\"", "\"fast\""), "got \"fast\", expected a number"},
        {changed(json, "\"testcases\"", "\"error\" : \"no GPU\", \"testcases\""), "nvbandwidth failed: \"no GPU\""},
        {changed(json, "\t\t\t\t\t\t\"55.2\",\n", ""), "the sum of its cells"},
        {"{\"nvbandwidth\": {\"testcases\": []}}", "testcases"},
    };
    for (const auto& [text, message] : json_cases) {
        const std::string got = refusal_of_matrices(text);
        EXPECT_NE(got.find(message), got.npos) << got << "\nexpected: " << message;
    }
}

}  // namespace
}  // namespace sluice
