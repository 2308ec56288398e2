// The JSON header of a safetensors file, as it stands there. Private to runtime/checkpoint/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/tensor_type.h"

namespace sluice {

struct SafetensorsEntry {
    std::string name;
    TensorType type = TensorType::kF32;
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  // bytes after the header
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;  // in the order of the header
    std::map<std::string, std::string> metadata;
};

// Throws InputError "origin: ..." for what is not JSON, any level, key or kind of value that the format does not have,
// a name given twice, or a type that it does not know. Offsets are not compared with anything yet.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view origin);

}  // namespace sluice
