// The rows of the token embedding, or the columns of the logits, that one rank of a tensor-parallel group holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

using TokenId = std::int32_t;

struct VocabularyShard {
    std::int64_t vocabulary = 0;  // of the whole model
    std::int64_t first = 0;       // ids [first, first + count) are here; count may be 0
    std::int64_t count = 0;

    constexpr bool holds(TokenId id) const { return id >= first && id - first < count; }
};

// Shard `rank` of `ranks` of ceil(vocabulary / ranks) ids each; the last ones have fewer, or none.
constexpr VocabularyShard vocabulary_shard(std::int64_t vocabulary, std::int64_t ranks, std::int64_t rank) {
    const std::int64_t size = (vocabulary + ranks - 1) / ranks;
    const std::int64_t first = size * rank < vocabulary ? size * rank : vocabulary;
    return {vocabulary, first, vocabulary - first < size ? vocabulary - first : size};
}

// Position in `ids` of the first one that is not in [0, vocabulary): what a run must end on. Kernels treat such an id
// as one of another shard and never read with it.
inline std::optional<std::int64_t> first_bad_token(std::span<const TokenId> ids, std::int64_t vocabulary) {
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (ids[i] < 0 || ids[i] >= vocabulary) return static_cast<std::int64_t>(i);
    return std::nullopt;
}

}  // namespace sluice
