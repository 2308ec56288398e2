// What an engine takes of a GPU's memory beside the arena of a rank. Said once: the engine takes it, a run refuses for
// want of it, and `sluice profile` writes it into the cluster file, by which the planner foretells it.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "runtime/cpu/vocabulary_loss.h"
#include "runtime/cuda/attention.h"
#include "runtime/cuda/device_views.h"
#include "runtime/cuda/gemm.h"
#include "runtime/vocabulary_shard.h"

namespace sluice::cuda {

inline constexpr Bytes kScratchBytes{kScratchFloats * static_cast<std::int64_t>(sizeof(float))};

inline constexpr std::int64_t kLossTokens = 65536;  // of a chunk of the loss, at most
constexpr Bytes loss_space_bytes(std::int64_t weight_shards) {
    return Bytes{kLossTokens * (static_cast<std::int64_t>(sizeof(LossPartial)) * weight_shards +
                                static_cast<std::int64_t>(sizeof(float)))};
}

// Whatever the step: of products, reductions and the loss.
constexpr Bytes workspace_bytes(std::int64_t weight_shards) {
    return Bytes{Gemms::kWorkspaceBytes} + kScratchBytes + loss_space_bytes(weight_shards);
}

// Of a token of the step: input, target; sorted place, row, and the begin of its row (one more for the end of each
// subsequence).
inline constexpr Bytes kTokenIdBytes{2 * sizeof(TokenId)}, kSortedTokenBytes{4 * sizeof(std::int32_t)};
inline constexpr Bytes kTokenBytes = kTokenIdBytes + kSortedTokenBytes;

// Taken by the driver when a plan of attention runs for the first time, for its kernel; every stretch of queries has a
// plan of its own (measured: validation/h200.md).
inline constexpr Bytes kAttentionKernelBytes = 128_KiB;
inline constexpr Bytes kAttentionKernelBytesPerToken = kAttentionKernelBytes / AttentionPlans::kQueriesAtOnce.value;

// Taken by the driver: an entry of 8 bytes for every page of 4 KiB of host memory that is registered, whatever pages
// the host itself uses (measured: validation/h200.md).
inline constexpr Bytes kPageTableBytesPerPinnedGib{(1_GiB).value / (4_KiB).value * 8};

}  // namespace sluice::cuda
