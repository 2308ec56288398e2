// Lookup in a measured table: linear in the logarithm of the size, the end values held outside. Rates of kernels and of
// messages rise over decades of size and then flatten, so the logarithm is where few points describe them well, and
// holding the ends never invents a rate that nobody measured.
#pragma once

#include <cmath>
#include <cstddef>

namespace sluice {

// Where `x` lies in an ascending table: between `low` and `high`, `weight` of the way to `high`. At and outside the
// ends low == high and weight == 0, so a point of the table gives exactly its own value.
struct LogPosition {
    std::size_t low = 0, high = 0;
    double weight = 0;
};

// `size_at(i)` is the i-th size, i < count, strictly ascending and positive. Requires: count > 0. Any `x`, 0 included.
template <class SizeAt>
LogPosition log_position(double x, std::size_t count, SizeAt size_at) {
    if (!(x > size_at(0))) return {0, 0, 0};
    std::size_t high = 1;
    while (high < count && size_at(high) < x) ++high;  // tables have some tens of points
    if (high == count) return {count - 1, count - 1, 0};
    if (!(x < size_at(high))) return {high, high, 0};
    const double below = size_at(high - 1);
    return {high - 1, high, std::log(x / below) / std::log(size_at(high) / below)};
}

inline double blend(double at_low, double at_high, double weight) {
    return weight == 0 ? at_low : at_low + weight * (at_high - at_low);
}

}  // namespace sluice
