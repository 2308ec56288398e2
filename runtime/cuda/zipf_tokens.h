// Token ids as frequent as in text, for measurements.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/vocabulary_shard.h"

namespace sluice::cuda {

// Rank r about as often as 1 / r. The same ids in every call.
inline std::vector<TokenId> zipf_tokens(std::int64_t count, std::int64_t vocabulary) {
    std::mt19937 random(7);
    std::vector<TokenId> ids;
    for (std::int64_t i = 0; i < count; ++i) {
        const double u = static_cast<double>(random() >> 8) / (1 << 24);
        ids.push_back(static_cast<TokenId>(std::pow(static_cast<double>(vocabulary), u)) - 1);
    }
    return ids;
}

}  // namespace sluice::cuda
