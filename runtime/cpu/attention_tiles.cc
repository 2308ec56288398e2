#include "runtime/cpu/attention_tiles.h"

#include <cmath>

#include "base/error.h"

namespace sluice {

float attention_scale(const AttentionShape& shape) {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
}

void check_attention_shapes(const AttentionShape& shape, const AttentionOperands& in) {
    SLUICE_CHECK(shape.begin.value >= 0 && shape.length.value >= 0 && shape.kv_heads > 0 && shape.head_dim > 0 &&
                     shape.heads % shape.kv_heads == 0,
                 "kv_heads divides heads");
    SLUICE_CHECK(in.query.rows == shape.length.value && in.query.columns == shape.heads * shape.head_dim,
                 "queries are (length, heads * head_dim)");
    SLUICE_CHECK(same_shape(in.key, in.value) && in.key.rows == shape.begin.value + shape.length.value &&
                     in.key.columns == shape.kv_heads * shape.head_dim,
                 "keys and values are (begin + length, kv_heads * head_dim)");
}

}  // namespace sluice
