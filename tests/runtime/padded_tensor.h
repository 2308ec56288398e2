// A matrix in memory of its own, with gaps between rows and poison (one NaN) wherever nothing was put: a kernel that
// reads what it should not, or writes outside its rows, is seen.
#pragma once

#include <bit>
#include <cstdint>
#include <random>
#include <vector>

#include "runtime/matrix_view.h"

namespace sluice {

inline constexpr std::uint32_t kPoisonBits = 0x7fc0dead;
inline const float kPoison = std::bit_cast<float>(kPoisonBits);

// The same numbers on every standard library, unlike std::normal_distribution: uniform in [-1, 1), 24 bits.
class UniformFloats {
public:
    explicit UniformFloats(std::uint32_t seed) : random_(seed) {}
    float operator()() { return static_cast<float>(static_cast<std::int32_t>(random_() >> 8) - (1 << 23)) / (1 << 23); }

private:
    std::mt19937 random_;
};

class PaddedTensor {
public:
    PaddedTensor(std::int64_t rows, std::int64_t columns, std::int64_t gap = 3)
        : rows_(rows),
          columns_(columns),
          stride_(columns + gap),
          values_(static_cast<std::size_t>(rows * (columns + gap)), kPoison) {}

    static PaddedTensor random(std::int64_t rows, std::int64_t columns, std::uint32_t seed, float size = 1,
                               float middle = 0) {
        PaddedTensor t(rows, columns);
        UniformFloats next(seed);
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c) t.view().row(r)[c] = middle + size * next();
        return t;
    }
    static PaddedTensor filled(std::int64_t rows, std::int64_t columns, float value) {
        return random(rows, columns, 0, 0, value);
    }

    MatrixView view() { return {values_.data(), rows_, columns_, stride_}; }
    ConstMatrixView view() const { return {values_.data(), rows_, columns_, stride_}; }
    std::int64_t rows() const { return rows_; }
    std::int64_t columns() const { return columns_; }

    // Without the gaps, in double.
    std::vector<double> doubles() const {
        std::vector<double> all;
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < columns_; ++c) all.push_back(static_cast<double>(view().row(r)[c]));
        return all;
    }
    std::vector<std::uint32_t> bits() const {
        std::vector<std::uint32_t> all;
        for (const float v : values_) all.push_back(std::bit_cast<std::uint32_t>(v));
        return all;
    }
    bool gaps_intact() const {
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = columns_; c < stride_; ++c)
                if (std::bit_cast<std::uint32_t>(view().row(r)[c]) != kPoisonBits) return false;
        return true;
    }

private:
    std::int64_t rows_, columns_, stride_;
    std::vector<float> values_;
};

inline std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }
inline std::vector<std::uint32_t> bits(const std::vector<float>& values) {
    std::vector<std::uint32_t> all;
    for (const float v : values) all.push_back(std::bit_cast<std::uint32_t>(v));
    return all;
}
inline std::vector<float> random_floats(std::size_t count, std::uint32_t seed, float size = 1, float middle = 0) {
    UniformFloats next(seed);
    std::vector<float> values(count);
    for (float& v : values) v = middle + size * next();
    return values;
}
inline std::vector<float> poisoned(std::size_t count) { return std::vector<float>(count, kPoison); }

}  // namespace sluice
