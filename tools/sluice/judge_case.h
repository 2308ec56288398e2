// Private to the command: recorded steps kept in folders, so that predictions can be held against them without
// hardware.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "traces/trace.h"
#include "validation/judge.h"

namespace sluice {

// A folder with scenario.yaml, schedule (or schedule.txt), measured*.trace and, where they are to differ, tolerances.
// With predicted.trace in place of scenario.yaml, that is judged; else the schedule is predicted now.
struct JudgeCase {
    std::string name;
    Trace predicted;
    std::vector<Trace> measured;
};

// `folder` itself where it is a case (has measured*.trace), else its folders, by name. Throws InputError when there is
// none.
std::vector<std::filesystem::path> find_cases(const std::filesystem::path& folder);

// Reads a case, and its tolerances over those given.
JudgeCase read_case(const std::filesystem::path& folder, Tolerances& tolerances);

}  // namespace sluice
