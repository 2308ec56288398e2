// What times taken on a GPU say about the limit of its power.
#pragma once

#include <vector>

#include "base/units.h"
#include "scenarios/calibration.h"

namespace sluice {

// One call in a GPU that never pauses, and after a long pause. Of a part of a GPU: while all parts compute, and while
// the others are idle.
struct PausedCall {
    Seconds steady{}, paused{};
    double gain() const { return paused.value > 0 && steady > paused ? steady / paused : 1; }
};

struct PowerFigures {
    PausedCall gemm, attention_forward, attention_backward;
    // From here on of the whole GPU, whatever its parts.
    PausedCall mix;       // of all three, in the proportions of a step
    struct Paced {        // the mix with a pause after each
        double busy = 0;  // share of the time, above 0 and below 1
        Seconds mix{};
    };
    std::vector<Paced> paced;
    // After a long pause without one: until the mix takes half of what it gained by the pause. 0: it never did.
    Seconds half{};
};

// docs/simulator.md, "The limit of power", the other way round. No limit (window 0) where the mix gains less than 2%,
// or where a GPU that never pauses has never been seen to slow down.
PowerLimit power_limit_of(const PowerFigures&);

}  // namespace sluice
