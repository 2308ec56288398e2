#include "runtime/profile/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/format_units.h"
#include "runtime/cpu/gemm.h"

namespace sluice {
namespace {

std::string cpu_name() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        const std::size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "unknown CPU";
}

std::int64_t usable_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    return std::max(1, CPU_COUNT(&set));
}

Bytes memory() {
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    Bytes all{std::max<std::int64_t>(1, pages) * std::max<std::int64_t>(1, size)};
    std::ifstream in("/sys/fs/cgroup/memory.max");  // "max", or a number
    std::string text;
    std::int64_t limit = 0;
    if (std::getline(in, text) && std::from_chars(text.data(), text.data() + text.size(), limit).ec == std::errc{} &&
        limit > 0)
        all = std::min(all, Bytes{limit});
    return all;
}

}  // namespace

Machine this_machine() { return {cpu_name(), usable_cores(), memory(), blas_description(), "GCC " __VERSION__}; }

std::string describe(const Machine& m) {
    return fmt::format("{}, {} core{}, {}", m.cpu, m.cores, m.cores == 1 ? "" : "s", format(m.memory));
}

}  // namespace sluice
