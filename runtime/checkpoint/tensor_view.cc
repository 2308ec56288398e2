#include "runtime/checkpoint/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstring>

#include "base/error.h"
#include "scenarios/quote.h"

namespace sluice {

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void read_floats(const TensorView& tensor, std::int64_t first, std::span<float> values) {
    if (tensor.type != TensorType::kF32 && tensor.type != TensorType::kBf16)
        throw InputError(
            fmt::format("tensor {}: type {}, expected F32 or BF16", quote(tensor.name), name(tensor.type)));
    const auto width = static_cast<std::size_t>(bytes_per_element(tensor.type).value);
    const std::size_t elements = tensor.bytes.size() / width, at = static_cast<std::size_t>(first);
    SLUICE_CHECK(first >= 0 && values.size() <= elements && at <= elements - values.size(),
                 "values are read inside their tensor");
    const std::byte* const from = tensor.bytes.data() + at * width;
    if (tensor.type == TensorType::kF32) {
        if (!values.empty()) std::memcpy(values.data(), from, values.size_bytes());
        return;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t upper = 0;
        std::memcpy(&upper, from + i * width, sizeof upper);
        values[i] = std::bit_cast<float>(std::uint32_t{upper} << 16U);
    }
}

}  // namespace sluice
