// The kinds of error. Bad input and environment failures throw; a bad schedule is data (diagnostic.h); our own bugs
// stop in SLUICE_CHECK. Only `main` maps them to exit codes: 2 bad input, 3 environment or bug.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

// The user's file or flag is wrong. what() is one line: "file:line:col: what, got, expected, suggestion".
struct InputError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The machine refused (open, write, fork ...). what() names the call, the object and the system's reason.
struct EnvironmentError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A broken promise inside Sluice: always a bug of ours, never the user's.
struct InternalError : std::logic_error {
    using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, std::string_view message);

}  // namespace sluice

// On in all builds. `message` says which promise was broken.
#define SLUICE_CHECK(condition, message)                                                 \
    do {                                                                                 \
        if (!(condition)) ::sluice::fail_check(__FILE__, __LINE__, #condition, message); \
    } while (false)
