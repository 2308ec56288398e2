// The parameters of a layer, or their gradients, as the kernels want them.
#pragma once

#include <span>

#include "runtime/decoder/operands.h"
#include "runtime/decoder/rank_context.h"
#include "runtime/matrix_view.h"

namespace sluice {

// On the rank that `sizes` is of. `base`: the first element of the layer's part. Vectors that the architecture does not
// have are empty.
template <class Element>
class LayerParametersOf {
public:
    LayerParametersOf(const RankSizes& sizes, Element* base) : c_(sizes), base_(base) {}

    std::span<Element> norm(bool second) const { return vector(second ? at().norm2 : at().norm1, c_.model().hidden); }
    std::span<Element> norm_bias(bool second) const {
        return vector(second ? at().norm2_bias : at().norm1_bias, c_.model().hidden);
    }
    BasicMatrixView<Element> query() const { return {base_ + at().qkv, c_.query_outputs(), c_.model().hidden}; }
    BasicMatrixView<Element> key_value() const {
        return {base_ + at().qkv + c_.query_outputs() * c_.model().hidden, 2 * c_.kv_outputs(), c_.model().hidden};
    }
    // Both, one behind the other.
    BasicMatrixView<Element> qkv() const {
        return {base_ + at().qkv, c_.query_outputs() + 2 * c_.kv_outputs(), c_.model().hidden};
    }
    std::span<Element> qkv_bias() const { return vector(at().qkv_bias, c_.query_outputs() + 2 * c_.kv_outputs()); }
    std::span<Element> query_bias() const { return vector(at().qkv_bias, c_.query_outputs()); }
    std::span<Element> key_value_bias() const {
        return at().qkv_bias == kAbsent ? std::span<Element>{}
                                        : vector(at().qkv_bias + c_.query_outputs(), 2 * c_.kv_outputs());
    }
    BasicMatrixView<Element> projection() const {
        return {base_ + at().projection, c_.model().hidden, c_.query_outputs()};
    }
    std::span<Element> projection_bias() const { return vector(at().projection_bias, c_.model().hidden); }
    BasicMatrixView<Element> first() const { return {base_ + at().first, c_.first_width(), c_.model().hidden}; }
    std::span<Element> first_bias() const { return vector(at().first_bias, c_.first_width()); }
    BasicMatrixView<Element> second() const { return {base_ + at().second, c_.model().hidden, c_.ffn()}; }
    std::span<Element> second_bias() const { return vector(at().second_bias, c_.model().hidden); }

private:
    const LayerOffsets& at() const { return c_.layout.layer; }
    std::span<Element> vector(std::int64_t offset, std::int64_t size) const {
        return offset == kAbsent ? std::span<Element>{} : std::span(base_ + offset, static_cast<std::size_t>(size));
    }

    const RankSizes& c_;
    Element* base_;
};

using LayerParameters = LayerParametersOf<float>;

// The gradients of a parameter, for an op that accesses those of all parts, in the order of the layout.
inline std::span<float> gradients_of(const ParameterLayout& layout, const Operands& o, const ParameterSlice& slice) {
    return o.of_kind(BufferKind::kGrads, slice.part)
        .subspan(static_cast<std::size_t>(slice.offset - layout.parts[slice.part].offset),
                 static_cast<std::size_t>(slice.held()));
}
// Those that the rank steps.
inline std::span<float> stepped_gradients_of(const ParameterLayout& layout, const Operands& o,
                                             const ParameterSlice& slice) {
    return gradients_of(layout, o, slice)
        .subspan(static_cast<std::size_t>(slice.first_stepped), static_cast<std::size_t>(slice.stepped));
}

}  // namespace sluice
