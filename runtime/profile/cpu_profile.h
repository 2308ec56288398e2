// Measures this machine as the CPU backend uses it: what a calibration and a cluster file hold. docs/profile.md says
// what is measured how, and how far to trust it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/profile/copy_bench.h"
#include "runtime/profile/machine.h"
#include "scenarios/calibration.h"
#include "scenarios/cluster.h"

namespace sluice {

struct ProfileRequest {
    std::string name;        // of both files
    bool quick = false;      // coarse grids, few samples: seconds instead of minutes
    std::int64_t ranks = 1;  // that compute at the same time; all but one are played by threads that keep a core busy
};

struct CpuProfile {
    Machine machine;
    Calibration calibration;
    Cluster cluster;
    SampleSpread gemm, attention, pointwise;
    CopyRates copies;
    CopyInterference interference;
    double core_share = 1;  // thread time by wall time while kernels ran: below 1 other programs had this core
};

// What is going on, and how far the whole has come (0 ... 1).
using ProfileProgress = std::function<void(std::string_view what, double fraction)>;

// Single-threaded but for copies, collectives and the other ranks' load.
CpuProfile profile_cpu(const ProfileRequest& request, const ProfileProgress& progress);

// The largest memory that a kernel of the CPU backend asks for beside its operands: attention's tiles, or the partial
// sums of the loss of one chunk of `logits_chunk` tokens from every rank of a group of `sp`. A constant: it holds for
// all shapes.
Bytes cpu_kernel_workspace(std::int64_t sp, Tokens logits_chunk);

}  // namespace sluice
