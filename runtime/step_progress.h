// How far a process is with a step: what a watching thread looks at.
#pragma once

#include <cstdint>

namespace sluice {

// While a process is in no step (it reads data, writes a checkpoint) it may take as long as it likes.
struct StepProgress {
    bool in_step = false;
    bool waiting = false;     // outside a step, for the others: in a call of Rendezvous
    std::uint64_t ended = 0;  // ops, of all steps; only goes up
    friend bool operator==(const StepProgress&, const StepProgress&) = default;
};

}  // namespace sluice
