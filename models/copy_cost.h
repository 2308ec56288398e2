// Copies between a GPU and host memory when every GPU of the node copies at once, as in a pipeline step.
#pragma once

#include "base/units.h"
#include "scenarios/cluster.h"

namespace sluice {

// A GPU's share of what it crosses: its own link, the uplink of its switch, the DRAM of its NUMA node.
BytesPerSecond shared_d2h(const Cluster&);
BytesPerSecond shared_h2d(const Cluster&);

// Bytes that go out (come in) within `window` at the shared rate, the latency of one copy taken off; never negative.
Bytes hidden_d2h(const Cluster&, Seconds window);
Bytes hidden_h2d(const Cluster&, Seconds window);

}  // namespace sluice
