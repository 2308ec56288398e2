#include <utility>

#include "runtime/cuda/token_embedding.h"

namespace sluice::cuda {

// By counting: one pass to count, one to place. Tokens of one id keep their order.
SortedTokens sort_tokens(std::span<const TokenId> ids, VocabularyShard shard) {
    std::vector<std::int32_t> next(static_cast<std::size_t>(shard.count), 0);  // counts, then places
    for (const TokenId id : ids)
        if (shard.holds(id)) ++next[static_cast<std::size_t>(id - shard.first)];

    SortedTokens sorted;
    std::int32_t placed = 0;
    for (std::size_t row = 0; row < next.size(); ++row) {
        if (next[row] == 0) continue;
        sorted.row.push_back(static_cast<std::int32_t>(row));
        sorted.begin.push_back(placed);
        placed += std::exchange(next[row], placed);
    }
    sorted.begin.push_back(placed);
    sorted.token.resize(static_cast<std::size_t>(placed));
    for (std::size_t t = 0; t < ids.size(); ++t)
        if (shard.holds(ids[t])) {
            std::int32_t& place = next[static_cast<std::size_t>(ids[t] - shard.first)];
            sorted.token[static_cast<std::size_t>(place++)] = static_cast<std::int32_t>(t);
        }
    return sorted;
}

}  // namespace sluice::cuda
