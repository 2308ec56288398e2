// What carries out the ops of one rank: lanes of threads on the CPU, streams on a GPU, a notebook in tests.
#pragma once

#include <cstdint>

#include "runtime/rank_program.h"

namespace sluice {

// The only virtual interface of the runtime. Called by the thread of the rank and nobody else, as
//   begin_step, issue for every op of the rank's program in order, finish_step
// step after step. Anything may throw; the run is over then.
class Backend {
public:
    virtual ~Backend() = default;

    // Steps count from 0. Everything that earlier steps issued has ended, on all ranks.
    virtual void begin_step(std::uint64_t step) = 0;

    // Gives the op to its lane and returns without waiting for anything: the lane runs its ops in this order, each
    // after the events of `op.waits`. Does not allocate.
    virtual void issue(const IssuedOp& op) = 0;

    // Returns when everything issued has ended.
    virtual void finish_step() = 0;
};

}  // namespace sluice
