// The computer this runs on, as far as it explains a measurement.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"

namespace sluice {

struct Machine {
    std::string cpu;         // "AMD EPYC 9654 96-Core Processor"; "unknown CPU" where the system does not say
    std::int64_t cores = 1;  // that this process may use
    Bytes memory{};          // whole; less where the process may use less
    std::string blas;        // library, version and the kernels it has chosen
    std::string compiler;    // of this program
};

Machine this_machine();

// "AMD EPYC, 2 cores, 23.5 GiB".
std::string describe(const Machine&);

}  // namespace sluice
