// A matrix on the device beside its values on the CPU, where they are floats that bf16 has exactly; and how results of
// both are compared.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/cuda/device_views.h"
#include "tests/runtime/cuda/device_array.h"
#include "tests/runtime/padded_tensor.h"

namespace sluice::cuda {

// Elements between rows and before the first row.
struct Layout {
    std::int64_t gap = 0, offset = 0;
};
inline constexpr Layout kGapless{}, kWideRows{16, 8}, kOdd{3, 1};
inline constexpr Layout kLayouts[] = {kGapless, kWideRows, kOdd};

template <class Element>
class DeviceMatrix {
public:
    DeviceMatrix(const PaddedTensor& values, Layout layout)
        : rows_(values.rows()),
          columns_(values.columns()),
          layout_(layout),
          values_(rows_, columns_),
          before_(static_cast<std::size_t>(layout.offset + rows_ * (columns_ + layout.gap)), from_float(kPoison)),
          device_(before_.size()) {
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < columns_; ++c) {
                const Element e = from_float(values.view().row(r)[c]);
                before_[at(r, c)] = e;
                values_.view().row(r)[c] = as_float(e);
            }
        reset();
    }
    // Poison, to be overwritten.
    DeviceMatrix(std::int64_t rows, std::int64_t columns, Layout layout)
        : DeviceMatrix(PaddedTensor::filled(rows, columns, kPoison), layout) {}

    void reset() { device_.upload(before_); }
    BasicMatrixView<Element> view() const {
        return {device_.data() + layout_.offset, rows_, columns_, columns_ + layout_.gap};
    }
    // What the device was given, for the CPU's kernels.
    ConstMatrixView values() const { return values_.view(); }

    // Fails where anything but the rows was written.
    PaddedTensor download() const {
        const std::vector<Element> after = device_.download();
        EXPECT_TRUE(device_.guard_intact());
        PaddedTensor all(rows_, columns_);
        std::vector<bool> inside(after.size(), false);
        for (std::int64_t r = 0; r < rows_; ++r)
            for (std::int64_t c = 0; c < columns_; ++c) {
                all.view().row(r)[c] = as_float(after[at(r, c)]);
                inside[at(r, c)] = true;
            }
        for (std::size_t i = 0; i < after.size(); ++i)
            if (!inside[i] && bits_of(after[i]) != bits_of(before_[i])) {
                ADD_FAILURE() << "element " << i << ", outside the rows, was written";
                break;
            }
        return all;
    }

private:
    static Element from_float(float v) {
        if constexpr (std::is_same_v<Element, Bf16>)
            return to_bf16(v);
        else
            return v;
    }
    static float as_float(Element e) {
        if constexpr (std::is_same_v<Element, Bf16>)
            return to_float(e);
        else
            return e;
    }
    static std::uint32_t bits_of(Element e) { return std::bit_cast<std::uint32_t>(as_float(e)); }
    std::size_t at(std::int64_t r, std::int64_t c) const {
        return static_cast<std::size_t>(layout_.offset + r * (columns_ + layout_.gap) + c);
    }

    std::int64_t rows_, columns_;
    Layout layout_;
    PaddedTensor values_;
    std::vector<Element> before_;
    DeviceArray<Element> device_;
};

using Bf16OnDevice = DeviceMatrix<Bf16>;
using Fp32OnDevice = DeviceMatrix<float>;

inline Bf16OnDevice random_bf16(std::int64_t rows, std::int64_t columns, std::uint32_t seed, Layout layout = {},
                                float size = 1, float middle = 0) {
    return {PaddedTensor::random(rows, columns, seed, size, middle), layout};
}

// Values of the CPU's fp32 kernel, rounded on the device. Rounding is 2^-9 of a value, and 2^-8 where fp32's own errors
// (`noise`, absolute) move it over the middle between two values of bf16.
inline void expect_rounded(const PaddedTensor& got, const PaddedTensor& want, double noise, std::string_view what) {
    ASSERT_TRUE(got.rows() == want.rows() && got.columns() == want.columns()) << what;
    for (std::int64_t r = 0; r < got.rows(); ++r)
        for (std::int64_t c = 0; c < got.columns(); ++c) {
            const double a = static_cast<double>(got.view().row(r)[c]), b = static_cast<double>(want.view().row(r)[c]);
            if (!(std::abs(a - b) <= std::ldexp(std::abs(b), -8) + noise))
                FAIL() << what << ": row " << r << ", column " << c << ": got " << a << ", want " << b;
        }
}

// Sums in fp32, in another order.
inline void expect_sums(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                        std::string_view what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double a = static_cast<double>(got[i]), b = static_cast<double>(want[i]);
        difference += (a - b) * (a - b), norm += b * b;
    }
    EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm)) << what;
}

// Every element of one float per place: exact results.
inline void expect_same(const PaddedTensor& got, const PaddedTensor& want, std::string_view what) {
    EXPECT_EQ(got.bits(), want.bits()) << what;
}

// A row of values that bf16 has exactly.
inline std::vector<float> random_bf16_floats(std::int64_t count, std::uint32_t seed, float size = 1, float middle = 0) {
    return floats(rounded(random_floats(static_cast<std::size_t>(count), seed, size, middle)));
}

inline PaddedTensor rounded_tensor(const PaddedTensor& values) {
    PaddedTensor all(values.rows(), values.columns());
    for (std::int64_t r = 0; r < values.rows(); ++r)
        for (std::int64_t c = 0; c < values.columns(); ++c)
            all.view().row(r)[c] = to_float(to_bf16(values.view().row(r)[c]));
    return all;
}

class DeviceScratch {
public:
    DeviceScratch() : floats_(static_cast<std::size_t>(kScratchFloats)) {}
    Scratch view() const { return {floats_.data(), kScratchFloats}; }

private:
    DeviceArray<float> floats_;
};

}  // namespace sluice::cuda
