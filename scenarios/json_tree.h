// JSON as the same plain tree that YAML files become, so that one set of strict readers (yaml_field.h) serves both.
// Private to scenarios/.
#pragma once

#include <cstddef>
#include <string_view>

#include "scenarios/yaml_tree.h"

namespace sluice {

// Parses one JSON text (RFC 8259; a byte order mark is skipped). Strings become quoted scalars; numbers and booleans
// bare ones, spelt as in the file. Throws InputError "origin:line:col: ..." for what is not JSON, longer than `longest`
// bytes or deeper than 16 levels, and for a key that an object gives twice.
YamlNode parse_json(std::string_view text, std::string_view origin, std::size_t longest = std::size_t{1} << 20);

// Of what programs write that keep every sample.
inline constexpr std::size_t kLongestForeignJson = std::size_t{16} << 20;

}  // namespace sluice
