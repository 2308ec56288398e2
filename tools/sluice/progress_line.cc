#include "tools/sluice/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace sluice {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

ProgressLine::ProgressLine() : active_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() { print(""); }

void ProgressLine::print(std::string_view line) {
    if (!active_) return;
    fmt::print(stderr, "\r\033[K{}", line);
    std::fflush(stderr);
}

void ProgressLine::show(std::string_view what) {
    began_ = -1;
    print(what);
}

void ProgressLine::show(std::string_view what, double fraction) {
    if (!active_) return;
    if (began_ < 0) began_ = now();
    const double elapsed = now() - began_;
    const bool can_tell = fraction > 0.02 && elapsed > 0.5;
    print(fmt::format("{} {:3.0f}%{}", what, 100 * fraction,
                      can_tell ? fmt::format(", {:.0f} s left", elapsed / fraction * (1 - fraction)) : ""));
}

}  // namespace sluice
