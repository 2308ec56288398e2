// Cross-entropy on fp32 logits of a vocabulary shard, a chunk of tokens at a time: runtime/cpu/vocabulary_loss.h has
// the steps and formulas.
#pragma once

#include "base/units.h"
#include "runtime/cpu/vocabulary_loss.h"
#include "runtime/cuda/device_views.h"
#include "runtime/vocabulary_shard.h"

namespace sluice::cuda {

// partials (tokens), overwritten. Targets are in the vocabulary (checked on the host).
void loss_partials(Stream, ConstFp32Matrix logits, const TokenId* targets, VocabularyShard shard,
                   LossPartial* partials);

// partials [shard][token]; log_sum_exp (tokens), overwritten; *loss_sum += sum of log_sum_exp - target, in an order
// that depends on the number of tokens alone.
void combine_loss_partials(Stream, const LossPartial* partials, std::int64_t shards, std::int64_t tokens,
                           float* log_sum_exp, double* loss_sum);

// logit becomes (exp(logit - log_sum_exp) - (1 at the target)) / total_tokens, rounded to bf16, in place: row r of the
// result begins where row r of the logits did, so the result's stride is 2 * logits.stride. Returns that view.
Bf16Matrix logits_gradient(Stream, const float* log_sum_exp, const TokenId* targets, VocabularyShard shard,
                           Tokens total_tokens, Fp32Matrix logits);

}  // namespace sluice::cuda
