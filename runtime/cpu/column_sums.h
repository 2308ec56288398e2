// sums[c] += term(0, c) + ... + term(rows - 1, c): how every gradient of a per-column parameter (bias, norm weight) is
// made. Blocks of rows are summed on their own first, so that the error grows with rows / 128, not with rows, and a
// block's sums stay in registers or the first cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace sluice {

template <class Term>
void add_column_sums(std::int64_t rows, std::span<float> sums, Term term) {
    constexpr std::int64_t kRows = 128, kColumns = 64;
    const auto columns = static_cast<std::int64_t>(sums.size());
    for (std::int64_t c0 = 0; c0 < columns; c0 += kColumns) {
        const std::int64_t width = std::min(kColumns, columns - c0);
        for (std::int64_t r0 = 0; r0 < rows; r0 += kRows) {
            std::array<float, kColumns> block{};
            const std::int64_t end = std::min(rows, r0 + kRows);
            for (std::int64_t r = r0; r < end; ++r)
                for (std::int64_t c = 0; c < width; ++c) block[static_cast<std::size_t>(c)] += term(r, c0 + c);
            for (std::int64_t c = 0; c < width; ++c)
                sums[static_cast<std::size_t>(c0 + c)] += block[static_cast<std::size_t>(c)];
        }
    }
}

}  // namespace sluice
