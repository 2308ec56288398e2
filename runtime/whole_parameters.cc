#include "runtime/whole_parameters.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice {
namespace {

// Visits `count` elements from the `first` on, of those that exist in the whole parameter: rows of padding beyond the
// vocabulary do not.
template <class Visit>
void for_each_element(const ParameterSlice& s, std::int64_t first, std::int64_t count, Visit visit) {
    const std::int64_t end = std::min(first + count, (s.rows - s.first_row) * s.held_columns);
    for (std::int64_t at = first; at < end;) {
        const std::int64_t row = at / s.held_columns, stop = std::min(end, (row + 1) * s.held_columns);
        for (; at < stop; ++at) visit(at, s.first_row + row, s.first_column + at - row * s.held_columns);
    }
}

std::int64_t index_in_whole(const ParameterSlice& s, std::int64_t row, std::int64_t column) {
    return s.transposed ? column * s.rows + row : row * s.columns + column;
}

// SplitMix64 (Steele et al. 2014): a good mixing of a counter.
std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

std::uint64_t stream_of(std::string_view name, std::uint64_t seed) {
    std::uint64_t hash = mixed(seed);
    for (const char c : name) hash = mixed(hash ^ static_cast<unsigned char>(c));
    return hash;
}

// Box and Muller 1958, from the counter's two halves.
double normal(std::uint64_t stream, std::uint64_t counter) {
    const std::uint64_t a = mixed(stream ^ mixed(counter)), b = mixed(a);
    const double u = (static_cast<double>(a >> 11) + 1) * 0x1p-53, v = static_cast<double>(b >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

// Every row once, in no order; values do not depend on it. Small matrices are not worth threads.
template <class Row>
void by_all_cores(std::int64_t rows, std::int64_t columns, const Row& row) {
    constexpr std::int64_t kWorthAThread = 1 << 18;  // elements
    const std::int64_t cores = std::max(1U, std::thread::hardware_concurrency());
    const std::int64_t threads = std::clamp<std::int64_t>(rows * columns / kWorthAThread, 1, cores);
    std::vector<std::jthread> others;
    const auto share = [&](std::int64_t t) {
        for (std::int64_t r = rows * t / threads; r < rows * (t + 1) / threads; ++r) row(r);
    };
    for (std::int64_t t = 1; t < threads; ++t) others.emplace_back(share, t);
    share(0);
}

}  // namespace

WholeTensor empty_tensor(const ParameterSlice& s) {
    WholeTensor whole;
    if (s.vector)
        whole.shape = {s.columns};
    else
        whole.shape = s.transposed ? std::vector{s.columns, s.rows} : std::vector{s.rows, s.columns};
    whole.values.assign(static_cast<std::size_t>(s.rows * s.columns), 0);
    return whole;
}

void add_to_whole(const ParameterSlice& s, std::span<const float> stepped, WholeTensor& whole) {
    for_each_element(s, s.first_stepped, s.stepped, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
        whole.values[static_cast<std::size_t>(index_in_whole(s, row, column))] =
            stepped[static_cast<std::size_t>(at - s.first_stepped)];
    });
}

void take_from_whole(const ParameterSlice& s, const WholeTensor& whole, std::span<float> held) {
    std::fill(held.begin(), held.end(), 0.0F);
    for_each_element(s, 0, s.held(), [&](std::int64_t at, std::int64_t row, std::int64_t column) {
        held[static_cast<std::size_t>(at)] = whole.values[static_cast<std::size_t>(index_in_whole(s, row, column))];
    });
}

void initialise_slice(const ParameterSlice& s, std::int64_t layers, std::uint64_t seed, std::span<float> held) {
    std::fill(held.begin(), held.end(), 0.0F);
    if (s.initial == Initial::kOne) std::fill(held.begin(), held.end(), 1.0F);
    if (s.initial == Initial::kZero || s.initial == Initial::kOne) return;
    const double deviation = s.initial == Initial::kResidual ? 0.02 / std::sqrt(2 * static_cast<double>(layers)) : 0.02;
    const std::uint64_t stream = stream_of(s.name, seed);
    by_all_cores(std::clamp<std::int64_t>(s.rows - s.first_row, 0, s.held_rows), s.held_columns, [&](std::int64_t r) {
        for (std::int64_t c = 0; c < s.held_columns; ++c) {
            const auto counter = static_cast<std::uint64_t>((s.first_row + r) * s.columns + s.first_column + c);
            held[static_cast<std::size_t>(r * s.held_columns + c)] =
                static_cast<float>(deviation * normal(stream, counter));
        }
    });
}

}  // namespace sluice
