// Units are moved in whole tensors where their buffers name them, so that a runtime finds every tensor in one piece.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "schedule/schedule.h"

namespace sluice {

// The least sum of some of the tensors that is at least `least`. Requires: 0 <= least <= their sum; at most 16 tensors.
Bytes whole_tensors(std::span<const SavedTensor> tensors, Bytes least);

// Tensors that sum to `bytes`, and the others, each in the order given; nothing when no choice does.
struct TensorSplit {
    std::vector<SavedTensor> moved, kept;
};
std::optional<TensorSplit> split_tensors(std::span<const SavedTensor> tensors, Bytes bytes);

}  // namespace sluice
