// Copies between a GPU and host memory when every GPU of the node copies at once, as in a pipeline step.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "scenarios/cluster.h"

namespace sluice {

// A GPU's share of what it crosses: its own link, the uplink of its switch, the DRAM its pinned memory lies on, and where
// that is another NUMA node's, what joins the two. With `numa: first` everything is taken to lie on NUMA node 0: what
// spills over when that is full is known only once memory is placed. `gpu` counts within the node.
BytesPerSecond shared_d2h(const Cluster&, std::int64_t gpu);
BytesPerSecond shared_h2d(const Cluster&, std::int64_t gpu);

// Of the slowest GPU of a node: the ranks of a group wait for one another.
BytesPerSecond shared_d2h(const Cluster&);
BytesPerSecond shared_h2d(const Cluster&);

// Bytes that go out (come in) within `window` at the shared rate, the latency of one copy taken off; never negative.
Bytes hidden_d2h(const Cluster&, Seconds window);
Bytes hidden_h2d(const Cluster&, Seconds window);

}  // namespace sluice
