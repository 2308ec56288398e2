#include "planner/whole_tensors.h"

#include <cstdint>

#include "base/error.h"

namespace sluice {
namespace {

// By subset, bit t for tensor t: every sum follows from one of a smaller subset.
std::vector<Bytes> subset_sums(std::span<const SavedTensor> tensors) {
    SLUICE_CHECK(tensors.size() <= 16, "a unit has few tensors");
    std::vector<Bytes> sums{0_B};
    sums.reserve(std::size_t{1} << tensors.size());
    for (const SavedTensor& saved : tensors)
        for (std::size_t subset = 0, before = sums.size(); subset < before; ++subset)
            sums.push_back(sums[subset] + saved.bytes);
    return sums;
}

}  // namespace

Bytes whole_tensors(std::span<const SavedTensor> tensors, Bytes least) {
    const std::vector<Bytes> sums = subset_sums(tensors);
    SLUICE_CHECK(least <= sums.back(), "a part of the unit");
    Bytes best = sums.back();
    for (const Bytes sum : sums)
        if (sum >= least && sum < best) best = sum;
    return best;
}

std::optional<TensorSplit> split_tensors(std::span<const SavedTensor> tensors, Bytes bytes) {
    const std::vector<Bytes> sums = subset_sums(tensors);
    for (std::size_t subset = 0; subset < sums.size(); ++subset) {
        if (sums[subset] != bytes) continue;
        TensorSplit split;
        for (std::size_t t = 0; t < tensors.size(); ++t)
            ((subset >> t) & 1U ? split.moved : split.kept).push_back(tensors[t]);
        return split;
    }
    return std::nullopt;
}

}  // namespace sluice
