#include "runtime/cpu/vocabulary_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "runtime/cpu/exponential.h"
#include "runtime/cpu/lane_sum.h"

namespace sluice {

std::optional<std::int64_t> loss_partials(ConstMatrixView logits, std::span<const TokenId> targets,
                                          VocabularyShard shard, std::span<LossPartial> partials) {
    SLUICE_CHECK(
        logits.columns == shard.count && std::ssize(targets) == logits.rows && std::ssize(partials) == logits.rows,
        "the shapes of a loss agree");
    for (std::int64_t t = 0; t < logits.rows; ++t) {
        const float* row = logits.row(t);
        const TokenId target = targets[static_cast<std::size_t>(t)];
        LossPartial& p = partials[static_cast<std::size_t>(t)];
        p.maximum = lane_maximum(logits.columns, [row](std::int64_t c) { return row[c]; });
        p.sum =
            lane_sum<float>(logits.columns, [row, m = p.maximum](std::int64_t c) { return exponential(row[c] - m); });
        p.target = shard.holds(target) ? row[target - shard.first] : 0.0F;
    }
    return first_bad_token(targets, shard.vocabulary);
}

double combine_loss_partials(std::span<const LossPartial> partials, std::int64_t shards, std::span<float> log_sum_exp) {
    const auto tokens = static_cast<std::int64_t>(log_sum_exp.size());
    SLUICE_CHECK(std::ssize(partials) == shards * tokens, "every shard has a partial for every token");
    double losses = 0;
    for (std::int64_t t = 0; t < tokens; ++t) {
        const auto of = [&](std::int64_t shard) { return partials[static_cast<std::size_t>(shard * tokens + t)]; };
        float maximum = -std::numeric_limits<float>::infinity();
        for (std::int64_t s = 0; s < shards; ++s) maximum = std::max(maximum, of(s).maximum);
        double sum = 0, target = 0;
        for (std::int64_t s = 0; s < shards; ++s) {
            sum += static_cast<double>(of(s).sum) * std::exp(static_cast<double>(of(s).maximum) - maximum);
            target += of(s).target;
        }
        const double total = maximum + std::log(sum);
        log_sum_exp[static_cast<std::size_t>(t)] = static_cast<float>(total);
        losses += total - target;
    }
    return losses;
}

void logits_gradient(std::span<const float> log_sum_exp, std::span<const TokenId> targets, VocabularyShard shard,
                     Tokens total_tokens, MatrixView logits) {
    SLUICE_CHECK(logits.columns == shard.count && std::ssize(targets) == logits.rows &&
                     std::ssize(log_sum_exp) == logits.rows && total_tokens.value > 0,
                 "the shapes of a loss agree");
    const float share = 1.0F / static_cast<float>(total_tokens.value);
    for (std::int64_t t = 0; t < logits.rows; ++t) {
        float* row = logits.row(t);
        const float total = log_sum_exp[static_cast<std::size_t>(t)];
        const TokenId target = targets[static_cast<std::size_t>(t)];
        const float at_target = shard.holds(target) ? exponential(row[target - shard.first] - total) - 1.0F : 0.0F;
        for (std::int64_t c = 0; c < logits.columns; ++c) row[c] = exponential(row[c] - total) * share;
        if (shard.holds(target)) row[target - shard.first] = at_target * share;
    }
}

}  // namespace sluice
