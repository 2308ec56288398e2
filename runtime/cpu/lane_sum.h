// A sum whose order is part of the result: 16 interleaved partial sums, then a binary tree. Compilers may not reorder
// floating-point additions, so a plain loop is neither vectorised nor as exact.
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

inline constexpr std::int64_t kSumLanes = 16;

// term(0) + ... + term(count - 1), in Number.
template <class Number, class Term>
Number lane_sum(std::int64_t count, Term term) {
    std::array<Number, kSumLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kSumLanes <= count; i += kSumLanes)
        for (std::int64_t lane = 0; lane < kSumLanes; ++lane) lanes[static_cast<std::size_t>(lane)] += term(i + lane);
    for (std::int64_t lane = 0; i + lane < count; ++lane) lanes[static_cast<std::size_t>(lane)] += term(i + lane);
    for (std::size_t width = kSumLanes / 2; width > 0; width /= 2)
        for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    return lanes[0];
}

// The largest of term(0) ... term(count - 1), minus infinity for none. NaN may or may not be seen.
template <class Term>
float lane_maximum(std::int64_t count, Term term) {
    std::array<float, kSumLanes> lanes;
    lanes.fill(-__builtin_inff());
    const auto raise = [](float& to, float value) { to = to < value ? value : to; };
    std::int64_t i = 0;
    for (; i + kSumLanes <= count; i += kSumLanes)
        for (std::int64_t lane = 0; lane < kSumLanes; ++lane)
            raise(lanes[static_cast<std::size_t>(lane)], term(i + lane));
    for (std::int64_t lane = 0; i + lane < count; ++lane) raise(lanes[static_cast<std::size_t>(lane)], term(i + lane));
    for (std::size_t lane = 1; lane < kSumLanes; ++lane) raise(lanes[0], lanes[lane]);
    return lanes[0];
}

}  // namespace sluice
