#include "runtime/checkpoint/tensor_type.h"

namespace sluice {
namespace {

struct Row {
    std::string_view name;
    Bytes bytes;
};
// By enumerator.
constexpr Row kRows[] = {{"BOOL", 1_B}, {"U8", 1_B},  {"I8", 1_B},  {"F8_E5M2", 1_B}, {"F8_E4M3", 1_B},
                         {"I16", 2_B},  {"U16", 2_B}, {"F16", 2_B}, {"BF16", 2_B},    {"I32", 4_B},
                         {"U32", 4_B},  {"F32", 4_B}, {"I64", 8_B}, {"U64", 8_B},     {"F64", 8_B}};

}  // namespace

std::string_view name(TensorType type) { return kRows[static_cast<std::size_t>(type)].name; }

Bytes bytes_per_element(TensorType type) { return kRows[static_cast<std::size_t>(type)].bytes; }

std::optional<TensorType> find_tensor_type(std::string_view name) {
    for (std::size_t i = 0; i < std::size(kRows); ++i)
        if (kRows[i].name == name) return static_cast<TensorType>(i);
    return std::nullopt;
}

}  // namespace sluice
