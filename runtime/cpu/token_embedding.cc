#include "runtime/cpu/token_embedding.h"

#include <algorithm>

#include "base/error.h"

namespace sluice {
namespace {

void check_shapes(std::span<const TokenId> ids, VocabularyShard shard, ConstMatrixView table, ConstMatrixView out) {
    SLUICE_CHECK(std::ssize(ids) == out.rows && table.rows == shard.count && table.columns == out.columns,
                 "the shapes of a token embedding agree");
}

}  // namespace

std::optional<std::int64_t> token_embedding_forward(std::span<const TokenId> ids, VocabularyShard shard,
                                                    ConstMatrixView table, MatrixView out) {
    check_shapes(ids, shard, table, out);
    for (std::int64_t t = 0; t < out.rows; ++t) {
        const TokenId id = ids[static_cast<std::size_t>(t)];
        if (shard.holds(id))
            std::copy_n(table.row(id - shard.first), out.columns, out.row(t));
        else
            std::fill_n(out.row(t), out.columns, 0.0F);
    }
    return first_bad_token(ids, shard.vocabulary);
}

void token_embedding_backward(std::span<const TokenId> ids, VocabularyShard shard, ConstMatrixView dout,
                              MatrixView dtable) {
    check_shapes(ids, shard, dtable, dout);
    for (std::int64_t t = 0; t < dout.rows; ++t) {
        const TokenId id = ids[static_cast<std::size_t>(t)];
        if (!shard.holds(id)) continue;
        const float* from = dout.row(t);
        float* to = dtable.row(id - shard.first);
        for (std::int64_t c = 0; c < dout.columns; ++c) to[c] += from[c];
    }
}

}  // namespace sluice
