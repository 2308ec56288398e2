#include "schedule/grid_view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "pipeline_schedule.h"
#include "random_schedule.h"
#include "schedule/schedule_file.h"
#include "schedule/schedule_text.h"
#include "schedule/unit_time_run.h"
#include "schedule/verify.h"
#include "tests/support/golden_file.h"

namespace sluice {
namespace {

Schedule parse(std::string_view lines) {
    return parse_schedule(std::string("sluice-schedule 1\n").append(lines).append("\nend"), "test");
}

Diagnostic problem(std::uint32_t op, std::string message) {
    return {"some-rule", OpId{op}, kNoBuffer, std::move(message)};
}

TEST(GridView, Goldens) {
    expect_golden("grids/two_stages.txt", grid_view(read_schedule(golden_path("schedules/two_stages.txt")), {}));
    expect_golden("grids/multiplexed.txt", grid_view(read_schedule(golden_path("schedules/multiplexed.txt")), {}));
    expect_golden("grids/four_stages_eight_subsequences.txt", grid_view(pipeline_schedule(4, 8), {}));
}

TEST(GridView, EmptySchedule) { EXPECT_EQ(grid_view(Schedule{}, {}), "step\n"); }

TEST(GridView, MarksAndListsDiagnostics) {
    const Schedule s = parse(
        "op 0 r0 compute | forward sub 0\n"
        "op 1 r0 compute | weight_grad sub 0 part 1\n"
        "op 2 r0 copy_out 1 B | after 1 | optimizer\n");
    EXPECT_EQ(grid_view(s, {problem(1, "op 1 is wrong"), {"whole-rule", kNoOp, kNoBuffer, "all is wrong"}}),
              "step        0\n"
              "r0 compute  F0    W0.1! .\n"
              "r0 copy_out .     .     O\n"
              "! some-rule: op 1 is wrong\n"
              "    op 1 r0 compute | weight_grad sub 0 part 1\n"
              "! whole-rule: all is wrong\n");
}

TEST(GridView, ShowsOpsThatNeverStart) {
    const Schedule s = parse(
        "op 0 r0 compute\n"
        "op 1 r0 send r1 1 B | after 0 | forward sub 1\n"
        "op 2 r0 send r1 1 B | forward sub 2\n"
        "op 3 r1 receive r0 1 B | forward sub 1\n"
        "op 4 r1 compute | after 5 | backward sub 1\n"
        "op 5 r1 copy_in 1 B | after 4 | backward sub 2\n");
    EXPECT_EQ(grid_view(s, {problem(2, "no receive")}),
              "step          0\n"
              "r0 compute    F   .\n"
              "r0 send r1    .   F1  | F2!\n"
              "r1 compute    .   .   | B1\n"
              "r1 copy_in    .   .   | B2\n"
              "r1 receive r0 .   F1\n"
              "3 of 6 ops never start: after '|', as listed\n"
              "! some-rule: no receive\n"
              "    op 2 r0 send r1 1 B | forward sub 2\n");
}

TEST(GridView, MatchesTheKthWithTheKth) {
    // r1's second receive and the collective hold r1's compute back; the third collective lacks a member
    const Schedule s = parse(
        "rank r0 h0 1 B\nrank r1 h0 1 B\ngroup g0 r0 r1\n"
        "op 0 r0 compute\n"
        "op 1 r0 send r1 1 B\n"
        "op 2 r0 send r1 1 B | after 0\n"
        "op 3 r1 receive r0 1 B\n"
        "op 4 r1 receive r0 1 B\n"
        "op 5 r0 collective all_reduce g0 1 B | after 2\n"
        "op 6 r1 collective all_reduce g0 1 B\n"
        "op 7 r1 compute | after 4 6\n"
        "op 8 r1 collective all_reduce g0 1 B\n");
    EXPECT_EQ(unit_time_run(s), (std::vector<std::uint32_t>{0, 0, 1, 0, 1, 2, 2, 3, kNeverStarts}));
}

TEST(GridView, CutsAndKeepsMarkedOpsInSight) {
    const Schedule s = pipeline_schedule(4, 8);
    const auto last = static_cast<std::uint32_t>(s.ops.size() - 1);
    GridOptions options;
    options.max_columns = 6;
    options.max_ranks = 1;
    expect_golden("grids/cut.txt", grid_view(s, {}, options));
    expect_golden("grids/cut_marked.txt", grid_view(s, {problem(last, "the last op of r3")}, options));
}

TEST(GridView, ListsAtMostFiftyDiagnostics) {
    const Diagnostics many(120, Diagnostic{"some-rule", kNoOp, kNoBuffer, "wrong"});
    const std::string text = grid_view(Schedule{}, many);
    EXPECT_EQ(std::count(text.begin(), text.end(), '!'), 51);
    EXPECT_TRUE(text.ends_with("! and 70 more\n"));
}

TEST(GridView, HasEveryOpOfAnySchedule) {
    for (std::uint32_t seed = 0; seed < 500; ++seed) {
        const Schedule s = random_schedule(seed);
        Diagnostics all;
        for (const Op& op : s.ops) all.push_back({"some-rule", op.id, kNoBuffer, ""});
        const std::string text = grid_view(s, all);
        const std::string grid = text.substr(0, text.find("! some-rule"));
        EXPECT_EQ(static_cast<std::size_t>(std::count(grid.begin(), grid.end(), '!')), s.ops.size()) << text;
    }
}

}  // namespace
}  // namespace sluice
