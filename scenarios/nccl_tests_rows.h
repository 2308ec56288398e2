// What rows and headers of nccl-tests must fulfil in both of its forms. Private to scenarios/.
#pragma once

#include <string_view>

#include "scenarios/nccl_tests_run.h"

namespace sluice {

// Most of what one file may have.
inline constexpr std::size_t kMostMembers = 65536, kMostRows = 65536;

// What one row says, in its own units.
struct NcclTestsRow {
    double size = 0;              // bytes
    double time = 0;              // us
    double algbw = 0, busbw = 0;  // GB/s
};

// The program's kind; else what is wrong: of another program, or of none.
std::string unknown_nccl_test(std::string_view program);

// "2.28.9" of 22809.
std::string nccl_version_text(std::int64_t code);

// Appends the row as a figure, rows of size 0 apart; else returns what is wrong with it: `size` by `time` is `algbw`,
// and `busbw` is what the kind makes of it among so many members, within what printing rounds.
std::string add_row(NcclTestsRun& run, const NcclTestsRow& row);

void add_device(NcclTestsRun& run, std::string model);

// Of a run whose members are all there, whose rows are; empty: nothing is wrong.
std::string too_few_members(const NcclTestsRun& run);
std::string no_rows(const NcclTestsRun& run);

}  // namespace sluice
