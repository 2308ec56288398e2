// A row-major matrix that somebody else owns: element (r, c) stands at data[r * stride + c]. All index arithmetic of
// the kernels is in std::int64_t: matrices may have more than 2^31 elements.
#pragma once

#include <cstdint>
#include <type_traits>

namespace sluice {

template <class Element>
struct BasicMatrixView {
    Element* data = nullptr;
    std::int64_t rows = 0, columns = 0;
    std::int64_t stride = 0;  // elements from one row to the next, >= columns

    constexpr BasicMatrixView() = default;
    constexpr BasicMatrixView(Element* d, std::int64_t r, std::int64_t c, std::int64_t s)
        : data(d), rows(r), columns(c), stride(s) {}
    // Rows without gaps.
    constexpr BasicMatrixView(Element* d, std::int64_t r, std::int64_t c) : BasicMatrixView(d, r, c, c) {}

    constexpr Element* row(std::int64_t r) const { return data + r * stride; }
    constexpr BasicMatrixView row_range(std::int64_t first, std::int64_t count) const {
        return {row(first), count, columns, stride};
    }
    constexpr BasicMatrixView column_range(std::int64_t first, std::int64_t count) const {
        return {data + first, rows, count, stride};
    }
    // To the view that only reads.
    constexpr operator BasicMatrixView<const Element>() const  // NOLINT(google-explicit-constructor)
        requires(!std::is_const_v<Element>) {
        return {data, rows, columns, stride};
    }
};

using MatrixView = BasicMatrixView<float>;
using ConstMatrixView = BasicMatrixView<const float>;

template <class A, class B>
constexpr bool same_shape(const BasicMatrixView<A>& a, const BasicMatrixView<B>& b) {
    return a.rows == b.rows && a.columns == b.columns;
}

}  // namespace sluice
