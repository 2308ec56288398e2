// Durations of kernels in measured traces, by their shapes in the schedule.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "scenarios/calibration.h"
#include "schedule/schedule.h"
#include "traces/trace.h"

namespace sluice {

struct MeasuredRun {
    const Schedule* schedule = nullptr;
    const Trace* trace = nullptr;  // of this schedule
    std::string name;              // of the file, for messages
};

// One compute op that was measured.
struct ComputeSample {
    std::size_t run = 0;
    OpId op{};
    Seconds length{};
    std::array<Seconds, 3> beside{};  // of it, during which copies out, copies in, collectives of its rank ran
    bool gaps_inside = false;         // kernels touch one another: launch gaps are part of their time
    std::vector<Seconds> spans;       // by kernel of the op: all its calls
    Seconds open{};                   // what no kernel covers
    std::uint64_t calls = 0;
};

// A call of one shape: the median over its samples.
struct ShapeTime {
    KernelShape shape;
    Seconds call{};           // without launch gap, with no copy or collective beside it
    std::size_t samples = 0;  // kernels of ops, in all runs
    std::uint64_t calls = 0;
    bool corrected = false;  // too few ran alone: durations beside copies, corrected by the calibration's factors
    std::vector<std::string> outliers;  // samples not believed, in words
};

struct KernelSamples {
    std::vector<ComputeSample> ops;  // by run, then op
    std::vector<ShapeTime> shapes;   // with enough samples; in the order of the first op that has them
    std::vector<ShapeTime> too_few;
    std::size_t unlike = 0;           // ops whose kernels in the trace are not those of the schedule
    std::string first_unlike;         // one of them, in words
    std::size_t without_kernels = 0;  // compute ops with kernels of which the trace has none
};

// A shape needs `least` samples. Samples further from their median than 6 times the median deviation, and than a tenth,
// are outliers. Kernels that the calibration calls fused are left out.
KernelSamples kernel_samples(std::span<const MeasuredRun> runs, const Calibration& calibration, std::size_t least);

// Requires: not empty. The mean of the two in the middle where there are two.
double median(std::vector<double> values);

}  // namespace sluice
