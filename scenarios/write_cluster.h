// The inverse of reading: a cluster as a file that the strict reader accepts.
#pragma once

#include <iosfwd>

#include "scenarios/cluster.h"
#include "scenarios/file_origin.h"

namespace sluice {

// Rates and times with four significant digits; bytes and counts exactly. Same
// input, same bytes. Blocks of `origin`: "" (nodes and gpus_per_node), gpu, pcie, host, nvlink, network.
void write_cluster(std::ostream& out, const Cluster&, const FileOrigin& origin);

}  // namespace sluice
