#include "sim/compute_speeds.h"

#include <algorithm>
#include <cmath>

namespace sluice {
namespace {

constexpr std::size_t kSets = 8;     // of Slowing
constexpr std::size_t kShares = 32;  // steps of the memory-bound share

}  // namespace

std::size_t slowing(LaneKind kind) {
    switch (kind) {
        case LaneKind::kCopyOut:
            return kByCopyOut;
        case LaneKind::kCopyIn:
            return kByCopyIn;
        case LaneKind::kCollective:
            return kByCollective;
        case LaneKind::kCompute:
        case LaneKind::kSend:
        case LaneKind::kReceive:
            return 0;
    }
    return 0;
}

// The tables of a part are those beside busy others. What these leave when they idle, memory-bound kernels take: their
// rate grows in equal steps from 1 to memory_alone.
ComputeSpeeds::ComputeSpeeds(const Interference& f, std::int64_t parts)
    : idle_parts_(f.memory_alone == 1 ? 0 : static_cast<std::size_t>(parts) - 1), all_{1} {
    if (f.copy_out == 1 && f.copy_in == 1 && f.collective == 1 && idle_parts_ == 0) return;
    all_.clear();
    for (std::size_t idle = 0; idle <= idle_parts_; ++idle) {
        const double idle_share = idle_parts_ == 0 ? 0 : static_cast<double>(idle) / static_cast<double>(idle_parts_);
        const double memory_rate = 1 + (f.memory_alone - 1) * idle_share;
        for (std::size_t share = 0; share <= (idle_parts_ == 0 ? 0 : kShares); ++share) {
            const double bound = static_cast<double>(share) / kShares;
            const double faster = 1 / (1 - bound + bound / memory_rate);
            for (std::size_t set = 0; set < kSets; ++set)
                all_.push_back((set & kByCopyOut ? f.copy_out : 1) * (set & kByCopyIn ? f.copy_in : 1) *
                               (set & kByCollective ? f.collective : 1) * faster);
        }
    }
}

std::size_t ComputeSpeeds::at(std::size_t slowed_by, double memory_bound, std::size_t idle) const {
    if (!vary()) return 0;
    if (idle_parts_ == 0) return slowed_by;
    const auto share = static_cast<std::size_t>(std::lround(std::clamp(memory_bound, 0.0, 1.0) * kShares));
    return (std::min(idle, idle_parts_) * (kShares + 1) + share) * kSets + slowed_by;
}

}  // namespace sluice
