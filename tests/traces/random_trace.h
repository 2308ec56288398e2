// Random traces that obey the rules of a replay, times and blockers included.
#pragma once

#include <cstdint>

#include "traces/trace.h"

namespace sluice {

struct RandomTraceOptions {
    std::uint32_t ranks = 3;
    std::size_t tasks = 40;     // an op, a transfer (two ops) or a collective (an op per rank)
    bool communication = true;  // transfers and collectives
};

Trace random_trace(std::uint32_t seed, const RandomTraceOptions& options = {});

}  // namespace sluice
