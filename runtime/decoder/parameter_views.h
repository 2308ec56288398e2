// The parameters of a layer, or their gradients, as the kernels want them.
#pragma once

#include <span>

#include "runtime/decoder/rank_context.h"
#include "runtime/matrix_view.h"

namespace sluice {

// `base`: the first element of the layer's part. Vectors that the architecture does not have are empty.
class LayerParameters {
public:
    LayerParameters(const RankContext& context, float* base) : c_(context), base_(base) {}

    std::span<float> norm(bool second) const { return vector(second ? at().norm2 : at().norm1, c_.model().hidden); }
    std::span<float> norm_bias(bool second) const {
        return vector(second ? at().norm2_bias : at().norm1_bias, c_.model().hidden);
    }
    MatrixView query() const { return {base_ + at().qkv, c_.query_width(), c_.model().hidden}; }
    MatrixView key_value() const {
        return {base_ + at().qkv + c_.query_width() * c_.model().hidden, 2 * c_.kv_width(), c_.model().hidden};
    }
    std::span<float> query_bias() const { return vector(at().qkv_bias, c_.query_width()); }
    std::span<float> key_value_bias() const {
        return at().qkv_bias == kAbsent ? std::span<float>{}
                                        : vector(at().qkv_bias + c_.query_width(), 2 * c_.kv_width());
    }
    MatrixView projection() const { return {base_ + at().projection, c_.model().hidden, c_.query_width()}; }
    std::span<float> projection_bias() const { return vector(at().projection_bias, c_.model().hidden); }
    MatrixView first() const { return {base_ + at().first, c_.first_width(), c_.model().hidden}; }
    std::span<float> first_bias() const { return vector(at().first_bias, c_.first_width()); }
    MatrixView second() const { return {base_ + at().second, c_.model().hidden, c_.ffn()}; }
    std::span<float> second_bias() const { return vector(at().second_bias, c_.model().hidden); }

private:
    const LayerOffsets& at() const { return c_.layout.layer; }
    std::span<float> vector(std::int64_t offset, std::int64_t size) const {
        return offset == kAbsent ? std::span<float>{} : std::span(base_ + offset, static_cast<std::size_t>(size));
    }

    const RankContext& c_;
    float* base_;
};

}  // namespace sluice
