// Rows of the embedding table by token id, on a vocabulary shard: a token of another shard gives zeros, and the sum
// over shards (the reduce-scatter that follows) is the embedding.
#pragma once

#include "runtime/matrix_view.h"
#include "runtime/vocabulary_shard.h"

namespace sluice {

// out (tokens, hidden), overwritten; table (shard.count, hidden). Returns the position of the first id outside the
// vocabulary, whose row is zeros. out may overlap nothing.
[[nodiscard]] std::optional<std::int64_t> token_embedding_forward(std::span<const TokenId> ids, VocabularyShard shard,
                                                                  ConstMatrixView table, MatrixView out);

// dtable[id - first] += dout[token], in the order of the tokens. Ids of other shards, and bad ones, add nothing.
void token_embedding_backward(std::span<const TokenId> ids, VocabularyShard shard, ConstMatrixView dout,
                              MatrixView dtable);

}  // namespace sluice
