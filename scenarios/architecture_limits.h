// Bounds of a model's shape, whatever file it comes from. They keep sequence x layers x width x bytes within 63 bits,
// so that nobody behind the readers need check. Private to scenarios/.
#pragma once

#include <cstdint>

#include "scenarios/yaml_field.h"

namespace sluice {

inline constexpr std::int64_t kMostLayers = 1024;
inline constexpr std::int64_t kWidestHidden = 65536;
inline constexpr std::int64_t kMostHeads = 1024;
inline constexpr std::int64_t kWidestHead = 1024;
inline constexpr std::int64_t kWidestAttention = 131072;  // heads x head_dim
inline constexpr std::int64_t kWidestFfn = 262144;
inline constexpr std::int64_t kLargestVocabulary = 4194304;
inline constexpr Limits<double> kRopeThetaLimits{1, 1e12, "1 ... 1e12"};
inline constexpr Limits<double> kNormEpsilonLimits{1e-12, 0.1, "1e-12 ... 0.1"};

}  // namespace sluice
