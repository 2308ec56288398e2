// Rows of the embedding table by token id, on a vocabulary shard: runtime/cpu/token_embedding.h.
#pragma once

#include <span>
#include <vector>

#include "runtime/cuda/device_views.h"
#include "runtime/vocabulary_shard.h"

namespace sluice::cuda {

// out (tokens, hidden), overwritten: rows of table (shard.count, hidden); zeros for ids of other shards.
void token_embedding_forward(Stream, const TokenId* ids, VocabularyShard shard, ConstBf16Matrix table, Bf16Matrix out);

// The tokens of a call sorted by id (of one id in their order), so that each row of the gradient has one writer and
// sums are formed in the order of the tokens: sorted on the host before the step, then copied to the device.
struct SortedTokens {
    std::vector<std::int32_t> token;  // positions in the call, by id
    std::vector<std::int32_t> row;    // of the table, distinct, ascending: id - shard.first
    std::vector<std::int32_t> begin;  // of each row's tokens in `token`; one more entry for the end
};
SortedTokens sort_tokens(std::span<const TokenId> ids, VocabularyShard shard);

struct DeviceSortedTokens {
    const std::int32_t *token = nullptr, *row = nullptr, *begin = nullptr;
    std::int64_t rows = 0;
};

// dtable[row] += sum of dout[token], fp32.
void token_embedding_backward(Stream, DeviceSortedTokens, ConstBf16Matrix dout, Fp32Matrix dtable);

}  // namespace sluice::cuda
