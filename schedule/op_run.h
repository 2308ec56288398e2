// When an op ran, in a replay or for real.
#pragma once

namespace sluice {

// Plain data: a replay writes it in another process.
struct OpRun {
    double begin = -1, end = -1;  // seconds from the start of the step; -1: never
};

}  // namespace sluice
