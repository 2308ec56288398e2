// How attention's forward and backward cut queries and keys into tiles, and which scores of a tile the causal mask
// keeps.
#pragma once

#include <algorithm>

#include "runtime/cpu/causal_attention.h"

namespace sluice {

// Scores of a tile are 64 KiB: they stay in the second cache between the products.
inline constexpr std::int64_t kQueryTile = 128;
inline constexpr std::int64_t kKeyTile = 128;

struct AttentionTile {
    std::int64_t query, queries;  // first, relative to `begin`; number
    std::int64_t key, keys;       // first, of the sequence; number

    // Scores of a row that are not masked: the row's own position and before it.
    std::int64_t visible(const AttentionShape& shape, std::int64_t row) const {
        return std::clamp<std::int64_t>(shape.begin.value + query + row + 1 - key, 0, keys);
    }
};

inline std::int64_t query_tile_rows(const AttentionShape& shape) { return std::min(kQueryTile, shape.length.value); }
inline std::int64_t key_tile_columns(const AttentionShape& shape) {
    return std::min(kKeyTile, shape.begin.value + shape.length.value);
}

// Calls visit(tile) for all tiles of keys that queries [query, query + queries) see, from key 0 up.
template <class Visit>
void for_each_key_tile(const AttentionShape& shape, std::int64_t query, std::int64_t queries, Visit visit) {
    const std::int64_t end = shape.begin.value + query + queries;
    for (std::int64_t key = 0; key < end; key += kKeyTile)
        visit(AttentionTile{query, queries, key, std::min(kKeyTile, end - key)});
}

template <class Visit>
void for_each_query_tile(const AttentionShape& shape, Visit visit) {
    for (std::int64_t query = 0; query < shape.length.value; query += kQueryTile)
        visit(query, std::min(kQueryTile, shape.length.value - query));
}

// The columns of one head.
template <class Element>
BasicMatrixView<Element> head_of(BasicMatrixView<Element> rows, std::int64_t head, std::int64_t head_dim) {
    return rows.column_range(head * head_dim, head_dim);
}

float attention_scale(const AttentionShape&);  // 1 / sqrt(head_dim)
void check_attention_shapes(const AttentionShape&, const AttentionOperands&);

}  // namespace sluice
