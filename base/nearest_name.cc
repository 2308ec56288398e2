#include "base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, substitute}));
        }
    }
    return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
    if (name.size() > 64) return {};  // hostile input: nobody means a 64-character key
    std::size_t best = std::max<std::size_t>(2, name.size() / 3) + 1;
    std::string_view nearest;
    for (std::string_view candidate : candidates) {
        const std::size_t distance = edit_distance(name, candidate);
        if (distance < best) best = distance, nearest = candidate;
    }
    return std::string(nearest);
}

}  // namespace sluice
