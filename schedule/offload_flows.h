// Which reload brings back what which offload took out.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace sluice {

// By op: 0 for ops that are neither, else a number >= 1 that a copy_out shares with every copy_in that reads the host
// bytes it wrote last (in issue order). Offloads that nobody reloads have 0. Numbered by op id of the offload.
std::vector<std::uint32_t> offload_flows(const Schedule& schedule);

}  // namespace sluice
