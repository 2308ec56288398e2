// Runs the built command as a user does: a process of its own, its output in pipes, in the source folder.
#pragma once

#include <string>
#include <vector>

namespace sluice {

struct Finished {
    int code = -1;  // exit code; 128 + n when signal n ended it
    std::string out, err;
};

struct RunOptions {
    std::vector<std::string> environment{};  // "NAME=value", added to ours
    std::string out_file{};                  // stdout goes there instead of into a pipe
    bool terminal = false;                   // stderr is a terminal
    bool fixed_addresses = false;            // no address space randomisation, where the system allows it
};

// Can a terminal be made here? Not in a bare root folder without /dev/pts.
bool terminals_exist();

// Ended by SIGALRM after a minute.
Finished run_sluice(const std::vector<std::string>& arguments, const RunOptions& options = {});

// The same, split at blanks: "simulate scenarios/tiny.yaml --json".
Finished run_sluice(const std::string& arguments, const RunOptions& options = {});

}  // namespace sluice
