// A scenario with more of one resource: what "10% more of it" means, in one place.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "scenarios/scenario.h"

namespace sluice {

enum class Resource : std::uint8_t { kFlops, kD2h, kH2d, kNvlink, kNic, kGpuMemory, kHostMemory };

inline constexpr std::array kResources{Resource::kFlops, Resource::kD2h,       Resource::kH2d,       Resource::kNvlink,
                                       Resource::kNic,   Resource::kGpuMemory, Resource::kHostMemory};

std::string_view name(Resource);  // "FLOP/s", "D2H", "H2D", "NVLink", "NIC", "GPU memory", "host memory"

// `factor` times as much of the resource, everything else as it is. Touches all that the resource is made of:
//   FLOP/s       GEMM and attention rates of the calibration, and the GPU's peak. Not memory-bound kernels
//   D2H, H2D     the GPU's own link and the uplink of its switch in that direction, and what both directions share:
//   duplex,
//                DRAM, the link between NUMA nodes. So where these bind, the other direction gains, too
//   NVLink       link rate, and the table of collectives inside a node
//   NIC          adapter rate, and the table of collectives across nodes
//   GPU memory   the whole of it; what is reserved stays, so usable memory grows by more than the factor
//   host memory  likewise
// Latencies, launch gaps and interference stay. Requires: factor > 0; memory is rounded down to bytes.
Scenario scaled(Scenario, Resource, double factor);

}  // namespace sluice
