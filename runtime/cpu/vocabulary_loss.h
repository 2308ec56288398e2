// Cross-entropy of next tokens with the vocabulary sharded over ranks and a chunk of tokens at a time, so that logits
// are only ever (chunk, shard) (Shoeybi et al. 2019, "Megatron-LM", section 3; chunks: models/layer_kernels.h).
//
//   every rank    loss_partials   its own maximum, sum of exponentials and target logit per token: 12 bytes
//   |all-gather of the partials|
//   every rank    combine_loss_partials   log-sum-exp per token, sum of the losses: the same bits on every rank
//   every rank    logits_gradient         its own logits become their gradient
//
// Every token counts (nothing is ignored), and the loss is the mean over all tokens of the sequence: each chunk's sum
// and each gradient is divided by the number of tokens of the whole sequence. A mean of means of subsequences is wrong
// when the last is shorter (Megatron-LM issue 673).
#pragma once

#include <optional>
#include <span>

#include "base/units.h"
#include "runtime/matrix_view.h"
#include "runtime/vocabulary_shard.h"

namespace sluice {

struct LossPartial {
    float maximum = 0;  // of the shard's logits; minus infinity for an empty shard
    float sum = 0;      // of exp(logit - maximum)
    float target = 0;   // the logit of the target, 0 if it is another shard's
};
static_assert(sizeof(LossPartial) == 3 * sizeof(float), "sent between ranks as three floats");

// logits (tokens, shard.count); partials (tokens), overwritten. Returns the position of the first target outside the
// vocabulary; no logit is read for it.
[[nodiscard]] std::optional<std::int64_t> loss_partials(ConstMatrixView logits, std::span<const TokenId> targets,
                                                        VocabularyShard shard, std::span<LossPartial> partials);

// partials [shard][token] of all shards, in rank order; log_sum_exp (tokens), overwritten. Returns the sum over tokens
// of log_sum_exp - target, in double, in the order of tokens.
double combine_loss_partials(std::span<const LossPartial> partials, std::int64_t shards, std::span<float> log_sum_exp);

// In place: logit becomes (exp(logit - log_sum_exp) - (1 at the target)) / total_tokens, the gradient of the mean loss.
// total_tokens: of the whole sequence, not of this chunk.
void logits_gradient(std::span<const float> log_sum_exp, std::span<const TokenId> targets, VocabularyShard shard,
                     Tokens total_tokens, MatrixView logits);

}  // namespace sluice
