// How the copies of every rank divide over the memories that its pinned bytes lie on.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "models/pinned_memory.h"
#include "sim/topology.h"

namespace sluice {

struct CopyPart {
    Endpoint memory{};
    double until = 1;  // fraction of a copy's bytes that ends with this part; the last part has 1
};

// Parts of a copy of `bytes`, in order; they sum to `bytes`.
std::vector<Bytes> divide(Bytes bytes, const std::vector<CopyPart>& parts);

// By rank, never empty. Every copy of a rank divides as its pinned bytes do: exact where these lie on one NUMA node or
// interleaved, and an average where an arena spills over from one to the next. A rank that pins nothing
// copies to its own NUMA node.
std::vector<std::vector<CopyPart>> copy_parts(const PinnedMemory&, const Topology&);

}  // namespace sluice
